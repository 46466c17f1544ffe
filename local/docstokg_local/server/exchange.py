"""HTTP requests before validation; replies."""

import asyncio
import base64
import json
import time
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from ulid import ULID

from docstokg.contracts.chat import CHAT_ROUTES, CONVERSATIONS
from docstokg.contracts.envelope import Caller, Reply
from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.routes import RouteName, route_of
from docstokg.usecases.chat import error_reply
from docstokg.usecases.intake import field_of, too_large
from docstokg.usecases.live import EVENTS
from docstokg.usecases.problems import problem_reply
from docstokg_functions.mcp.tools import TOOLS
from docstokg_local.server.authentication import Authentication
from docstokg_local.server.guards import host_of, is_own

type Work = Literal["search", "model", "check", "page", "load"]
# Kind of work of a route: each has its own slots. All other routes search.
WORK: dict[RouteName, Work] = {
    "check": "check", "page": "page", "load": "load", "delete": "load", "cancel": "load",
}  # fmt: skip

# Bytes of a check that take about as long as a short one.
CHECK_UNIT_BYTES = 16_384

ANSWER_TOOL, REMOTE = "answer_with_citations", "remote"
BODY_S = 10.0
NO_ROUTE = "not_found"
CHAT_PATHS = tuple(route_of(name).path.partition("{")[0] for name in CHAT_ROUTES)


class Refused(Exception):
    """A request that is refused before the workflow."""

    def __init__(
        self, status: int, code: str, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers


class RequestIds:
    """Assigns every request its arrival time and an id."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Call the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = str(ULID())
        scope.setdefault("state", {}).update(request_id=request_id, arrived=time.time())

        async def with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", []).append((b"x-request-id", request_id.encode()))
            await send(message)

        await self._app(scope, receive, with_id)


class Demand(NamedTuple):
    """Fields of a request that the server reads before validation.

    `token`: for MCP progress notifications. `wants_events`: the client requested events.
    `units`: size of the work; a check costs time for its texts.
    """

    timeout_s: float
    work: Work = "search"
    model: str = ""
    token: object = None
    wants_events: bool = False
    units: float = 1.0


def demand_of(
    route: RouteName,
    body: bytes,
    accept: str,
    default_s: float,
    most_s: float,
    has_remote: bool,
) -> Demand:
    """Read the fields of a body that is not validated yet; invalid ones get defaults.

    `timeout_s` is limited to 1 to `most_s`. `has_remote`: a remote model writes MCP answers unless
    a call names another one.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        message = None
    timeout_s, model = field_of(message, "budget", "timeout_s"), field_of(message, "model")
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
        timeout_s = default_s
    chosen = model if isinstance(model, str) else ""
    work, writer = WORK.get(route, "search"), None
    if route in CONVERSATIONS:
        head, _, tail = chosen.rpartition("@")
        writer, wants_events = head or tail, field_of(message, "stream") is True
        # An answer that is changed at its end is sent whole.
        form = field_of(message, "text", "format", "type") not in (None, "text")
        is_whole = field_of(message, "stop") or field_of(message, "response_format") or form
        wants_events = wants_events and not is_whole
    else:
        arguments, is_default = message, False
        if route == "mcp":
            tool = field_of(message, "params", "name")
            work = WORK.get(
                next((entry.route for entry in TOOLS if entry.name == tool), route), work
            )
            arguments, is_default = field_of(message, "params", "arguments"), tool == ANSWER_TOOL
        is_on = field_of(arguments, "synthesis", "enabled")
        if is_on is True or (is_on is None and is_default):
            usual = EXTRACTIVE if is_default and not has_remote else REMOTE
            writer = field_of(arguments, "synthesis", "model") or usual
        wants_events = EVENTS in accept and route in ("answer", "mcp")
    token = field_of(message, "params", "_meta", "progressToken")
    if isinstance(token, str) and any("\ud800" <= character <= "\udfff" for character in token):
        token = None  # the route refuses it
    return Demand(
        min(max(1.0, timeout_s), most_s),
        "model" if writer and writer != EXTRACTIVE else work,
        chosen,
        token,
        wants_events and (route != "mcp" or token is not None),
        units_of(work, body),
    )


def units_of(work: Work, body: bytes) -> float:
    """Return the size of a request's work, at least 1."""
    return max(1.0, len(body) / CHECK_UNIT_BYTES) if work == "check" else 1.0


async def hang_up(request: Request) -> None:
    """Wait until the client closes the connection; the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def caller_of(request: Request, authentication: Authentication) -> Caller:
    """Return the caller; raise `Refused` (401) if a known key is required and missing."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else None
    caller = authentication.caller(request.headers.get("x-api-key", bearer))
    if caller is None:
        detail = "Send a known key as X-Api-Key: KEY or as Authorization: Bearer KEY."
        raise Refused(401, "unauthorized", detail, {"WWW-Authenticate": "Bearer"})
    return caller


def refuse_foreign_page(
    request: Request, listed: Collection[str], origins: Collection[str]
) -> None:
    """Raise `Refused` (403) for another site's page, needed only without keys.

    Loopback pages and requests without Origin pass. `listed`: host names of this server. `origins`:
    of allowed pages; "*" allows all.
    """
    origin = request.headers.get("origin")
    if origin is None or origin in origins or "*" in origins:
        return
    if not is_own(host_of(origin), listed):
        raise Refused(403, "foreign_origin", "Requests of other sites' pages are not answered.")


async def json_body(request: Request, max_bytes: int) -> bytes:
    """Return the raw body; raise `Refused`.

    415: no application/json; 413: over `max_bytes`; 400: incomplete after BODY_S or a disconnect.
    """
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type != "application/json":
        detail = "Send the body with Content-Type: application/json."
        raise Refused(415, "unsupported_media_type", detail)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > max_bytes:
                    raise Refused(
                        413, "body_too_large", too_large(max_bytes), {"Connection": "close"}
                    )
    except TimeoutError as exc:
        detail = f"The body did not arrive within {BODY_S:g} s."
        raise Refused(400, "body_too_slow", detail, {"Connection": "close"}) from exc
    except ClientDisconnect as exc:
        raise Refused(400, "client_disconnected", "The body never arrived.") from exc
    return bytes(body)


def response(reply: Reply) -> Response:
    """Return a reply as an HTTP response; images are base64-decoded."""
    headers = {"Content-Type": "application/json", **reply.headers}
    body = reply.body.encode("utf-8")
    if headers["Content-Type"].startswith("image/"):
        body = base64.b64decode(body)
    return Response(body, reply.statusCode, headers)


def problem_of(request: Request, refused: Refused) -> Reply:
    """Return a problem, in OpenAI's format for its routes and unknown ones of /v1."""
    request_id, path = request.state.request_id, request.scope["path"]
    reply = problem_reply(
        refused.status, refused.code, refused.detail, request_id, headers=refused.headers
    )
    is_unknown = refused.code == NO_ROUTE and path.startswith("/v1/")
    return error_reply(reply) if is_unknown or path.startswith(CHAT_PATHS) else reply


async def _refused(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Refused)
    return response(problem_of(request, exc))


async def _http_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    code, detail = {
        404: (NO_ROUTE, "There is no such route; see /openapi.json."),
        405: ("method_not_allowed", "This route does not take that method."),
    }.get(exc.status_code, ("http_error", str(exc.detail)))
    headers = dict(exc.headers or {})
    if allowed := headers.get("Allow"):
        detail = f"{detail[:-1]}; it takes {allowed}."
    return response(problem_of(request, Refused(exc.status_code, code, detail, headers)))


async def _crashed(request: Request, exc: Exception) -> Response:
    crashed = Refused(500, "internal_error", "The request could not be completed.")
    return response(problem_of(request, crashed))


EXCEPTION_HANDLERS = {Refused: _refused, HTTPException: _http_error, Exception: _crashed}
