"""The HTTP API on a laptop: what API Gateway does in AWS, in front of the same state machine."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from ulid import ULID

from docstokg.adapters.sqlite_jobs import SqliteJobs
from docstokg.contracts.chat import CHAT_ROUTES
from docstokg.contracts.documents import MAX_DOCUMENTS_BYTES
from docstokg.contracts.envelope import Caller, Envelope, Reply
from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.request import MAX_BODY_BYTES, Budget
from docstokg.contracts.routes import Route as ApiRoute
from docstokg.contracts.routes import RouteName, route_of
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.usecases.chat import error_reply
from docstokg.usecases.problems import problem_reply
from docstokg.wiring import Handler, Wiring
from docstokg_local import openapi
from docstokg_local.admission import SLOTS, Gate, Gone, Overloaded, Shared, TooLate
from docstokg_local.authentication import Authentication
from docstokg_local.guards import host_of, is_own
from docstokg_local.jobs import Keeper
from docstokg_local.pages import page_routes
from docstokg_local.prometheus import PrometheusSink
from docstokg_local.routes import parameters_of, route_functions, starlette_routes
from docstokg_local.workflow import LocalWorkflow

BODY_S = 10.0
HEALTH_FRESH_S = 1.0
DEFAULT_TIMEOUT_S = Budget().timeout_s
SERVER_SLOTS = 4
"""With stores that are servers a request waits for them part of its time."""
REMOTE_SLOTS = 16
OVERLOADED = "Too many requests wait already to meet this deadline; see Retry-After."
LOOPBACK_ONLY = (
    "Without keys (DOCSTOKG_AUTH=keys) documents are loaded and removed on a loopback address only."
)
TOO_LATE = "The deadline passed before the answer was complete."
CHAT_PATHS = tuple(route_of(name).path for name in CHAT_ROUTES)
QUEUE_ROUTES = ("load", "delete", "job")
COMPRESSED_FROM = 1024
"""Bytes; a shorter body gains nothing."""
LARGE = "The body is over 64 KiB."
LARGE_DOCUMENTS = "The body is over 4 MiB: more goes by `docstokg load`."
Endpoint = Callable[[Request], Awaitable[Response]]


class Refused(Exception):
    """A request that never reaches the workflow."""

    def __init__(
        self, status: int, code: str, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers


def application(
    settings: Settings,
    wiring: Wiring | None = None,
    sink: PrometheusSink | None = None,
    host: str = "127.0.0.1",
) -> Starlette:
    """Make the ASGI application; models and connections are made now, not in a request.

    A given `wiring` reports to the given `sink`, which `GET /metrics` shows. `host`: what the
    server is bound to.
    """
    sink = sink or PrometheusSink()
    wiring = wiring or Wiring(
        settings, Telemetry(sink, level=settings.log_level, reveal=settings.rag_log_snippets)
    )
    authentication = Authentication(settings, wiring.telemetry)
    workflow = LocalWorkflow(wiring)
    functions = route_functions(wiring, workflow)
    queue = wiring.job_queue()
    assert isinstance(queue, SqliteJobs)
    keeper = Keeper(settings, queue, wiring.telemetry)
    wiring.override("job_keeper", keeper)  # closed with the stores
    keeper.wake()
    document = openapi.document()
    telemetry = wiring.telemetry
    embedded = settings.index_url.startswith("sqlite:")
    quick, remote = Gate(SLOTS if embedded else SERVER_SLOTS), Gate(REMOTE_SLOTS)
    current_health = Shared(lambda: functions["health"]({}, None), HEALTH_FRESH_S, "health")

    def endpoint_of(route: ApiRoute) -> Endpoint:
        if route.name == "health":
            return get_health
        return called(route, functions[route.function]) if route.function else run(route.name)

    def run(route: RouteName) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            caller = _caller(request, authentication)
            body = b"" if request.method == "GET" else await _json_body(request)
            read = chat_wishes if route == "chat" else wishes
            wish = read(body, settings.max_timeout_s)
            lane = remote if wish.remote else quick
            arrived, gone = request.state.arrived, threading.Event()

            def work() -> Reply:
                envelope = _envelope(request, route, caller, body)
                reply = workflow.run(envelope, arrived=arrived, gone=gone.is_set)
                return error_reply(reply) if route in CHAT_ROUTES else reply

            model = wish.model if wish.model in settings.models else ""
            kind = f"{route} {model}"
            return _response(await admitted(request, lane, work, caller, kind, wish, gone))

        return endpoint

    def called(route: ApiRoute, function: Handler) -> Endpoint:
        most = (MAX_DOCUMENTS_BYTES, LARGE_DOCUMENTS) if route.changes else (MAX_BODY_BYTES, LARGE)

        async def endpoint(request: Request) -> Response:
            if settings.auth == "off" and (route.changes or route.name == "mcp"):
                _refuse_foreign_page(request, settings.hosts)
            if settings.auth == "off" and route.changes and not is_own(host, ()):
                raise Refused(403, "loopback_only", LOOPBACK_ONLY)
            caller = _caller(request, authentication)
            posted = route.method == "POST"
            body = await _json_body(request, *most) if posted else parameters_of(route, request)

            def work() -> Reply:
                envelope = _envelope(request, route.name, caller, body)
                return Reply.model_validate(function(envelope.model_dump(mode="json"), None))

            wish, gone = Wishes(settings.max_timeout_s), threading.Event()
            reply = await admitted(request, quick, work, caller, route.name, wish, gone)
            if route.name in QUEUE_ROUTES:
                keeper.wake()
            return _response(reply)

        return endpoint

    async def admitted(
        request: Request,
        lane: Gate,
        work: Callable[[], Reply],
        caller: Caller,
        kind: str,
        wishes: Wishes,
        gone: threading.Event,
    ) -> Reply:
        """Run `work` when its turn has come; everybody of a server without keys is an address."""
        client = request.client.host if request.client is not None else ""
        who = client if settings.auth == "off" else caller.sub
        waited = time.time() - request.state.arrived
        ends = time.monotonic() - waited + wishes.timeout_s
        try:
            lane.expect(caller=who, kind=kind, ends=ends)
            left = asyncio.create_task(_hang_up(request))
            try:
                return await lane.run(work, caller=who, kind=kind, ends=ends, gone=left)
            finally:
                gone.set()  # what is still at work for this request stops at its next step
                left.cancel()
        except Overloaded as exc:
            telemetry.count("rag_requests_total", route=kind.split(maxsplit=1)[0], status="503")
            retry = {"Retry-After": str(exc.retry_after_s)}
            return _problem_reply(request, 503, "overloaded", OVERLOADED, retry)
        except TooLate as exc:
            raise Refused(504, "deadline_exceeded", TOO_LATE) from exc
        except Gone as exc:
            raise Refused(400, "client_disconnected", "The client hung up.") from exc

    async def get_health(request: Request) -> Response:
        return _response(Reply.model_validate(await current_health()))

    async def get_openapi(request: Request) -> Response:
        return JSONResponse(document)

    async def get_metrics(request: Request) -> Response:
        return Response(sink.text(), media_type="text/plain; version=0.0.4")

    app = Starlette(
        routes=[
            *starlette_routes(endpoint_of),
            Route("/openapi.json", get_openapi, methods=["GET"]),
            Route("/metrics", get_metrics, methods=["GET"]),
            *page_routes(),
        ],
        exception_handlers={Refused: _refused, HTTPException: _http_error, Exception: _crashed},
    )
    # The contract has no second spelling of a path; API Gateway has none either.
    app.router.redirect_slashes = False
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM, compresslevel=5)
    app.add_middleware(RequestIds)
    return app


class RequestIds:
    """Gives every request the time it arrived, and an id its answer and log lines carry."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass on with `request.state.request_id` set."""
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


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the server has to know of a request before it is checked."""

    timeout_s: float
    model: str = ""
    remote: bool = False


def wishes(body: bytes, most_s: float) -> Wishes:
    """Read deadline and model of a body that may be anything; validate refuses what is wrong."""
    try:
        request = json.loads(body)
        budget, synthesis = request.get("budget") or {}, request.get("synthesis") or {}
        timeout_s = budget.get("timeout_s", DEFAULT_TIMEOUT_S)
        model = synthesis.get("model", "") if synthesis.get("enabled") is True else ""
    except (ValueError, AttributeError, RecursionError):
        return Wishes(min(DEFAULT_TIMEOUT_S, most_s))
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
        timeout_s = DEFAULT_TIMEOUT_S
    remote = bool(model) and model != EXTRACTIVE
    return Wishes(min(max(1.0, timeout_s), most_s), str(model), remote)


def chat_wishes(body: bytes, most_s: float) -> Wishes:
    """The same of a chat request, whose deadline is the default's."""
    timeout_s = min(DEFAULT_TIMEOUT_S, most_s)
    try:
        model = str(json.loads(body)["model"]).rpartition("@")
    except (ValueError, KeyError, TypeError, RecursionError):
        return Wishes(timeout_s)
    name = model[0] or model[2]
    return Wishes(timeout_s, name, name != EXTRACTIVE)


async def _hang_up(request: Request) -> None:
    """Wait until the client closes the connection; the body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _caller(request: Request, authentication: Authentication) -> Caller:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else None
    caller = authentication.caller(request.headers.get("x-api-key", bearer))
    if caller is None:
        raise Refused(
            401,
            "unauthorized",
            "Send a known key as X-Api-Key: KEY or as Authorization: Bearer KEY.",
            {"WWW-Authenticate": "Bearer"},
        )
    return caller


def _refuse_foreign_page(request: Request, listed: Collection[str]) -> None:
    """Refuse a page of another site; where keys are needed it has none."""
    origin = request.headers.get("origin")
    if origin is not None and not is_own(host_of(origin), listed):
        raise Refused(403, "foreign_origin", "Requests of other sites' pages are not answered.")


def _envelope(request: Request, route: RouteName, caller: Caller, body: bytes) -> Envelope:
    return Envelope(
        route=route,
        request_id=request.state.request_id,
        caller=caller,
        body_b64=base64.b64encode(body).decode(),
    )


async def _json_body(request: Request, most: int = MAX_BODY_BYTES, too_large: str = LARGE) -> bytes:
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refused(
            415, "unsupported_media_type", "Send the body with Content-Type: application/json."
        )
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise Refused(413, "body_too_large", too_large, {"Connection": "close"})
    except TimeoutError as exc:
        detail = f"The body did not arrive within {BODY_S:g} s."
        raise Refused(400, "body_too_slow", detail, {"Connection": "close"}) from exc
    except ClientDisconnect as exc:
        raise Refused(400, "client_disconnected", "The body never arrived.") from exc
    return bytes(body)


def _response(reply: Reply) -> Response:
    headers = {"Content-Type": "application/json", **reply.headers}
    return Response(reply.body.encode("utf-8"), reply.statusCode, headers)


def _problem(
    request: Request, status: int, code: str, detail: str, headers: dict[str, str] | None = None
) -> Response:
    return _response(_problem_reply(request, status, code, detail, headers))


def _problem_reply(
    request: Request, status: int, code: str, detail: str, headers: dict[str, str] | None = None
) -> Reply:
    reply = problem_reply(status, code, detail, request.state.request_id, (), headers)
    return error_reply(reply) if request.scope["path"] in CHAT_PATHS else reply


async def _refused(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, Refused)
    return _problem(request, exc.status, exc.code, exc.detail, exc.headers)


async def _http_error(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)
    code, detail = {
        404: ("not_found", "There is no such route; see /openapi.json."),
        405: ("method_not_allowed", "This route does not take that method."),
    }.get(exc.status_code, ("http_error", str(exc.detail)))
    headers = dict(exc.headers or {})
    if allowed := headers.get("Allow"):
        detail = f"{detail[:-1]}; it takes {allowed}."
    return _problem(request, exc.status_code, code, detail, headers)


async def _crashed(request: Request, exc: Exception) -> Response:
    return _problem(request, 500, "internal_error", "The request could not be completed.")


def document_text() -> str:
    """Give the OpenAPI document as a file holds it."""
    return json.dumps(openapi.document(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
