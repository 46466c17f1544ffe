"""The page and the interactive reference on a laptop."""

from importlib.util import find_spec
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from functions.page.page import FILES, headers_of, static_file

VIEWER = ("swagger-ui.css", "swagger-ui-bundle.js")


def page_routes() -> list[Route]:
    """Give the routes of the page; no key is needed, everything they call asks for it."""
    own = [Route(path, _own_file, methods=["GET"]) for path in FILES]
    viewer = [Route(f"/docs/{name}", _viewer_file, methods=["GET"]) for name in VIEWER]
    return [*own, *viewer]


async def _own_file(request: Request) -> Response:
    file = await run_in_threadpool(static_file, request.url.path)
    return Response(file.body, headers=file.headers)


async def _viewer_file(request: Request) -> Response:
    """Send a file of the installed viewer package; 404 where it is not installed."""
    name = request.url.path.rpartition("/")[2]
    spec = find_spec("swagger_ui_bundle")
    folders = (spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        for file in sorted(Path(folder).glob(f"vendor/*/{name}")):
            body = await run_in_threadpool(file.read_bytes)
            return Response(body, headers=headers_of(name, docs=True))
    raise HTTPException(404)
