"""The routes of the contract on a laptop, in two groups: by the state machine, by a function."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from docstokg.contracts.chat import CHAT_ROUTES
from docstokg.contracts.documents import MAX_DOCUMENTS_BYTES
from docstokg.contracts.envelope import Caller, Reply
from docstokg.contracts.request import MAX_BODY_BYTES
from docstokg.contracts.routes import ROUTES, Route, RouteName
from docstokg.settings import Settings
from docstokg.usecases.chat import error_reply
from docstokg.wiring import Handler, Wiring
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.server.admission import SLOTS, Gate, Gone, Overloaded, Shared, TooLate
from docstokg_local.server.authentication import Authentication
from docstokg_local.server.exchange import (
    LARGE,
    Refused,
    Wishes,
    caller_of,
    chat_wishes,
    envelope_of,
    hang_up,
    is_json,
    json_body,
    known_caller,
    overloaded_reply,
    quick_id,
    refuse_foreign_page,
    response,
    wishes,
)
from docstokg_local.server.guards import is_own, is_own_host
from docstokg_local.server.jobs import Keeper
from docstokg_local.server.routes import parameters_of, route_functions
from docstokg_local.server.short_way import Arrival, Refusal

HEALTH_FRESH_S = 1.0
SERVER_SLOTS = 4
"""With stores that are servers a request waits for them part of its time."""
REMOTE_SLOTS = 16
LOOPBACK_ONLY = (
    "Without keys (DOCSTOKG_AUTH=keys) documents are loaded and removed on a loopback address only."
)
TOO_LATE = "The deadline passed before the answer was complete."
QUEUE_ROUTES = ("load", "delete", "job")
LARGE_DOCUMENTS = "The body is over 4 MiB: more goes by `docstokg load`."
BY_WORKFLOW = {
    route.path: route.name for route in ROUTES if route.method == "POST" and not route.function
}
Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A request that waits for its turn; `gone` is set when its answer is wanted no more."""

    caller: Caller
    kind: str
    wishes: Wishes
    gone: threading.Event = field(default_factory=threading.Event)


class Endpoints:
    """What answers each route of the contract: who asks, whether there is room, and the work."""

    def __init__(
        self,
        settings: Settings,
        wiring: Wiring,
        workflow: LocalWorkflow,
        authentication: Authentication,
        keeper: Keeper,
        host: str,
    ) -> None:
        self._settings, self._telemetry = settings, wiring.telemetry
        self._workflow, self._authentication = workflow, authentication
        self._keeper, self._host = keeper, host
        self._functions = functions = route_functions(wiring, workflow)
        is_embedded = settings.index_url.startswith("sqlite:")
        self._quick, self._remote = Gate(SLOTS if is_embedded else SERVER_SLOTS), Gate(REMOTE_SLOTS)
        self._health = Shared(lambda: functions["health"]({}, None), HEALTH_FRESH_S, "health")

    def of(self, route: Route) -> Endpoint:
        """Give the endpoint of a route: health, one function, or the whole state machine."""
        if route.name == "health":
            return self._get_health
        if route.function:
            return self._by_function(route, self._functions[route.function])
        return self._by_workflow(route.name)

    async def _get_health(self, request: Request) -> Response:
        return response(Reply.model_validate(await self._health()))

    def refusal(self, arrival: Arrival, address: str) -> Refusal | None:
        """Give the refusal of a request that waits for the state machine; see `short_way`.

        None when there may be room, or it is refused for another reason: the long way tells.
        """
        route = BY_WORKFLOW.get(arrival.path)
        if route is None or not (self._quick.is_taken() or self._remote.is_taken()):
            return None
        is_open = self._settings.auth == "off"
        if is_open and not is_own_host(arrival.headers["host"], self._settings.hosts):
            return None
        caller = known_caller(arrival.headers, self._authentication)
        if caller is None or not is_json(arrival.headers) or len(arrival.body) > MAX_BODY_BYTES:
            return None
        kind, wish = self._kind(route, arrival.body)
        lane = self._remote if wish.remote else self._quick
        ends = time.monotonic() + wish.timeout_s
        try:
            lane.expect(caller=address if is_open else caller.sub, kind=kind, ends=ends)
        except Overloaded as exc:
            self._count_refused(route)
            request_id, wait_s = quick_id(), exc.retry_after_s
            return Refusal(overloaded_reply(arrival.path, request_id, wait_s), request_id, wait_s)
        return None

    def _kind(self, route: RouteName, body: bytes) -> tuple[str, Wishes]:
        """Name the kind of work a request is, and give what it wishes."""
        wish = (chat_wishes if route == "chat" else wishes)(body, self._settings.max_timeout_s)
        model = wish.model if wish.model in self._settings.models else ""
        return f"{route} {model}", wish

    def _count_refused(self, route: str) -> None:
        self._telemetry.count("rag_requests_total", route=route, status="503")

    def _by_workflow(self, route: RouteName) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            caller = caller_of(request, self._authentication)
            body = b"" if request.method == "GET" else await json_body(request)
            turn = Turn(caller, *self._kind(route, body))
            arrived = request.state.arrived

            def work() -> Reply:
                envelope = envelope_of(request, route, caller, body)
                reply = self._workflow.run(envelope, arrived=arrived, gone=turn.gone.is_set)
                return error_reply(reply) if route in CHAT_ROUTES else reply

            lane = self._remote if turn.wishes.remote else self._quick
            return response(await self._admitted(request, lane, turn, work))

        return endpoint

    def _by_function(self, route: Route, function: Handler) -> Endpoint:
        most = (MAX_DOCUMENTS_BYTES, LARGE_DOCUMENTS) if route.changes else (MAX_BODY_BYTES, LARGE)

        async def endpoint(request: Request) -> Response:
            if self._settings.auth == "off":
                self._refuse_strangers(request, route)
            caller = caller_of(request, self._authentication)
            posted = route.method == "POST"
            body = await json_body(request, *most) if posted else parameters_of(route, request)

            def work() -> Reply:
                envelope = envelope_of(request, route.name, caller, body)
                return Reply.model_validate(function(envelope.model_dump(mode="json"), None))

            turn = Turn(caller, route.name, Wishes(self._settings.max_timeout_s))
            reply = await self._admitted(request, self._quick, turn, work)
            if route.name in QUEUE_ROUTES:
                self._keeper.wake()
            return response(reply)

        return endpoint

    def _refuse_strangers(self, request: Request, route: Route) -> None:
        """Without keys: no page of another site, and changes on this machine only."""
        if route.changes or route.name == "mcp":
            refuse_foreign_page(request, self._settings.hosts)
        if route.changes and not is_own(self._host, ()):
            raise Refused(403, "loopback_only", LOOPBACK_ONLY)

    async def _admitted(
        self, request: Request, lane: Gate, turn: Turn, work: Callable[[], Reply]
    ) -> Reply:
        """Run `work` when its turn has come; everybody of a server without keys is an address."""
        client = request.client.host if request.client is not None else ""
        who = client if self._settings.auth == "off" else turn.caller.sub
        waited = time.time() - request.state.arrived
        ends = time.monotonic() - waited + turn.wishes.timeout_s
        try:
            lane.expect(caller=who, kind=turn.kind, ends=ends)
            left = asyncio.create_task(hang_up(request))
            try:
                return await lane.run(work, caller=who, kind=turn.kind, ends=ends, gone=left)
            finally:
                turn.gone.set()  # what is still at work for this request stops at its next step
                left.cancel()
        except Overloaded as exc:
            self._count_refused(turn.kind.split(maxsplit=1)[0])
            path, request_id = request.scope["path"], request.state.request_id
            return overloaded_reply(path, request_id, exc.retry_after_s)
        except TooLate as exc:
            raise Refused(504, "deadline_exceeded", TOO_LATE) from exc
        except Gone as exc:
            raise Refused(400, "client_disconnected", "The client hung up.") from exc
