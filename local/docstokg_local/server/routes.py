"""Local routes and their parameters."""

import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from docstokg.contracts import routes
from docstokg.wiring import Handler, Wiring
from docstokg_functions import __name__ as package
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.server.mcp_stdio import local_mcp

Endpoint = Callable[[Request], Awaitable[Response]]
_IN_PATH = re.compile(r"\{(\w+)\}")


def route_functions(wiring: Wiring, workflow: LocalWorkflow) -> dict[str, Handler]:
    """Return the handlers by function of the table of routes, except `stream`."""
    names = {route.function for route in routes.ROUTES} - {"", "mcp", "stream"}
    handlers: dict[str, Handler] = {
        name: import_module(f"{package}.{name}.handler").build(wiring) for name in sorted(names)
    }
    return handlers | {"mcp": local_mcp(wiring, workflow, handlers)}


def starlette_routes(endpoint_of: Callable[[routes.Route], Endpoint]) -> list[Route]:
    """Return one route per path, so that a 405 lists all allowed methods."""
    paths: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for route in routes.ROUTES:
        paths[_IN_PATH.sub(r"{\1:path}", route.path)][route.method] = endpoint_of(route)
    return [
        Route(path, _by_method(path, methods), methods=list(methods))
        for path, methods in paths.items()
    ]


def parameters_of(route: routes.Route, request: Request) -> bytes:
    """Return parameters as a JSON body; raise `HTTPException` (404) for an empty segment."""
    in_path = _IN_PATH.findall(route.path)
    fields: dict[str, str] = {}
    if set(route.parameters) - set(in_path):
        fields |= {name: value for name, value in request.query_params.items() if value}
    if in_path:
        fields |= _path_fields(request, route.path)
    return json.dumps(fields).encode()


def _by_method(path: str, endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        # A proxy's rule for a path does not see an escaped spelling of it.
        if "{" not in path and b"%" in request.scope["raw_path"].partition(b"?")[0]:
            raise HTTPException(404)
        method = "GET" if request.method == "HEAD" else request.method
        return await endpoints[method](request)

    return endpoint


def _path_fields(request: Request, path: str) -> dict[str, str]:
    names = path.split("/")
    # A model's name contains slashes, which some clients do not escape.
    max_splits = len(names) - 1 if names[-1] == "{model}" else -1
    segments = request.scope["raw_path"].partition(b"?")[0].split(b"/", max_splits)
    if len(segments) != len(names) or not all(segments[1:]):
        raise HTTPException(404)
    return {
        name[1:-1]: unquote_to_bytes(segment).decode("utf-8", "surrogateescape")
        for name, segment in zip(names, segments, strict=True)
        if _IN_PATH.fullmatch(name)
    }
