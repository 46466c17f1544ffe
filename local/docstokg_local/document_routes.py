"""The routes of documents on a laptop: their parameters become the body the function reads."""

import json
from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Endpoint = Callable[[Request], Awaitable[Response]]
DOCUMENT = b"/v1/documents/"


def document_routes(called: Callable[[str], Endpoint]) -> list[Route]:
    """Give the routes; `called` makes the endpoint that calls the function as a route."""
    listed = {"GET": called("documents"), "POST": called("load")}
    return [
        Route("/v1/documents", _by_method(listed), methods=["GET", "POST"]),
        Route("/v1/documents/{doc_id:path}", called("delete"), methods=["DELETE"]),
        Route("/v1/jobs/{id}", called("job"), methods=["GET"]),
        Route("/v1/namespaces", called("namespaces"), methods=["GET"]),
    ]


def body_of(route: str, request: Request) -> bytes:
    """Give the parameters of a request as the function's JSON body."""
    fields: dict[str, str] = {}
    if route in ("documents", "delete"):
        fields |= {name: value for name, value in request.query_params.items() if value}
    if route == "job":
        fields["id"] = request.path_params["id"]
    if route == "delete":
        fields["doc_id"] = _named(request)
    return json.dumps(fields).encode()


def _by_method(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return endpoint


def _named(request: Request) -> str:
    """Read a document's id, which is one segment of the path: what was `%2F` there is `/` here."""
    segment = request.scope["raw_path"].partition(b"?")[0].removeprefix(DOCUMENT)
    if b"/" in segment or not segment:
        raise HTTPException(404)
    return unquote_to_bytes(segment).decode("utf-8", "surrogateescape")
