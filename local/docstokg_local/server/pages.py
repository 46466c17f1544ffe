"""Web page and API reference."""

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from docstokg_functions.page.page import FILES, SIGN_IN, VIEWER, static_file


def page_routes() -> list[Route]:
    """Return the routes of the page, which need no key."""
    return [Route(path, _file) for path in (*FILES, *VIEWER, SIGN_IN)]


async def _file(request: Request) -> Response:
    try:
        file = await run_in_threadpool(static_file, request.url.path)
    except KeyError:
        raise HTTPException(404) from None
    return Response(file.body, headers=file.headers)
