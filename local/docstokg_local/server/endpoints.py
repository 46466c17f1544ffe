"""Local endpoints of the contract."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from docstokg.contracts.chat import CHAT_ROUTES
from docstokg.contracts.envelope import Caller, Envelope, Reply
from docstokg.contracts.language_models import EXTRACTIVE
from docstokg.contracts.routes import Route, RouteName
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError
from docstokg.observability import note
from docstokg.settings import Settings
from docstokg.usecases.chat import error_reply, model_reply, models_reply
from docstokg.usecases.live import EVENT_HEADERS
from docstokg.wiring import Wiring
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.server.admission import (
    Admission,
    ClientGone,
    CoalescedCall,
    Overloaded,
    TooLate,
)
from docstokg_local.server.authentication import Authentication
from docstokg_local.server.exchange import (
    WORK,
    Demand,
    Refused,
    Work,
    caller_of,
    demand_of,
    hang_up,
    json_body,
    problem_of,
    refuse_foreign_page,
    response,
    units_of,
)
from docstokg_local.server.guards import is_own
from docstokg_local.server.jobs import JobRunner
from docstokg_local.server.live import Events, frames_of, listening
from docstokg_local.server.mcp_stdio import LocalRouteFunction
from docstokg_local.server.routes import parameters_of, route_functions

HEALTH_FRESH_S = INFO_S = 1.0
# Concurrent requests per process, which computes on one core; those for a model wait for it.
SLOTS: dict[Work, int] = {"search": 3, "model": 16, "check": 2, "page": 1, "load": 2}
# More slots: with remote stores, requests partly wait.
SERVER_SLOTS = 4
# Seconds before a refusal, to slow down retries; not beyond the deadline.
REFUSAL_DELAY_S = 0.25

LOOPBACK_ONLY = (
    "Without keys (DOCSTOKG_AUTH=keys) documents are loaded and removed on a loopback address only."
)
OVERLOADED = "Too many requests wait already to meet this deadline; see Retry-After."
TOO_LATE = "The deadline passed before the answer was complete."
QUEUE_ROUTES = ("load", "delete", "job", "cancel")
Endpoint = Callable[[Request], Awaitable[Response]]
# Answers an envelope that arrived at epoch seconds, unless the client disconnects.
Run = Callable[[Envelope, float, Callable[[], bool]], Reply]


class Endpoints:
    """Endpoints of the contract's routes."""

    def __init__(
        self,
        settings: Settings,
        wiring: Wiring,
        workflow: LocalWorkflow,
        authentication: Authentication,
        job_runner: JobRunner,
        host: str,
    ) -> None:
        self._settings, self._telemetry, self._wiring = settings, wiring.telemetry, wiring
        self._workflow, self._authentication = workflow, authentication
        self._job_runner, self._host = job_runner, host
        self._functions = functions = route_functions(wiring, workflow)
        self._listening = listening(wiring)
        is_embedded = settings.index_url.startswith("sqlite:")
        slots = SLOTS | ({} if is_embedded else {"search": SERVER_SLOTS})
        self._admissions = {work: Admission(count) for work, count in slots.items()}
        self._has_remote = bool(wiring.model_access().remote(settings.models))
        self._health = CoalescedCall(lambda: functions["health"]({}, None), HEALTH_FRESH_S)

    def of(self, route: Route) -> Endpoint:
        """Return the endpoint of a route: health, one function, or the state machine."""
        if route.name == "health":
            return self._get_health
        if route.name == "models":
            return self._get_models
        if route.name == "model":
            return self._endpoint(route, self._get_model)
        if route.function and route.name != "stream":
            call = LocalRouteFunction(self._functions[route.function]).run
            return self._endpoint(route, lambda envelope, *_: call(envelope))
        return self._endpoint(route, self._by_machine)

    async def _get_health(self, request: Request) -> Response:
        return response(Reply.model_validate(await self._health()))

    async def _get_models(self, request: Request) -> Response:
        caller = caller_of(request, self._authentication)
        try:
            index = self._wiring.search_index()
            stored = (await asyncio.to_thread(index.info, Deadline.after(INFO_S))).namespaces
        except DocsToKGError:  # model names need no store
            stored = ()
        return response(models_reply(caller, self._ready_models(), stored))

    def _get_model(self, envelope: Envelope, *_: object) -> Reply:
        return error_reply(model_reply(envelope, self._ready_models()))

    def _ready_models(self) -> tuple[str, ...]:
        models = self._settings.models
        ready = {EXTRACTIVE, *self._wiring.model_access().remote(models)}
        return tuple(model for model in models if model in ready)

    def _by_machine(
        self, envelope: Envelope, arrived: float, is_disconnected: Callable[[], bool]
    ) -> Reply:
        reply = self._workflow.run(envelope, arrived=arrived, is_disconnected=is_disconnected)
        return error_reply(reply) if envelope.route in CHAT_ROUTES else reply

    def _endpoint(self, route: Route, run: Run) -> Endpoint:
        # This process sends the events itself.
        name: RouteName = "answer" if route.name == "stream" else route.name
        most_s = self._settings.max_timeout_s
        default_s = most_s if route.function else min(self._settings.default_timeout_s, most_s)
        is_read = name == "mcp" or run == self._by_machine

        async def endpoint(request: Request) -> Response:
            note(method=route.method, route=route.path, request_id=request.state.request_id)
            if self._settings.auth == "off":
                self._refuse_strangers(request, route)
            caller, state = caller_of(request, self._authentication), request.state
            if route.method == "POST":
                body = await json_body(request, route.body_bytes)
            else:
                body = parameters_of(route, request)
            accept = request.headers.get("accept", "")
            kind = WORK.get(name, "search")
            demand = Demand(most_s, kind, units=units_of(kind, body))
            if is_read:
                demand = demand_of(name, body, accept, default_s, most_s, self._has_remote)

            def work(is_disconnected: Callable[[], bool]) -> Reply:
                envelope = Envelope.of(name, state.request_id, caller, body)
                if name == "mcp":
                    headers = {n: v for n, v in request.headers.items() if n.startswith("mcp-")}
                    envelope = envelope.model_copy(update={"headers": headers})
                return run(envelope, state.arrived, is_disconnected)

            admitted = partial(self._admitted, request, name, caller, demand)
            if demand.wants_events or route.name == "stream":
                return await self._streamed(request, name, demand, work, admitted)
            abandoned = threading.Event()
            try:
                reply = await admitted(partial(work, abandoned.is_set))
            finally:
                abandoned.set()  # work stops at its next step
            if name in QUEUE_ROUTES:
                self._job_runner.wake()
            return response(reply)

        return endpoint

    async def _streamed(
        self,
        request: Request,
        route: RouteName,
        demand: Demand,
        work: Callable[[Callable[[], bool]], Reply],
        admitted: Callable[[Callable[[], Reply]], Coroutine[Any, Any, Reply]],
    ) -> Response:
        request_id = request.state.request_id
        frame = frames_of(route, request_id, demand.model, demand.token)
        events = Events(Deadline.after(self._settings.max_timeout_s))
        live = self._listening(lambda name, value: events.put(frame(name, value)))

        def run_work() -> Reply:
            with self._workflow.listening(request_id, live):
                reply = work(events.gone.is_set)
            live.finish(reply, route)
            return reply

        def finish(task: asyncio.Task[Reply]) -> None:
            failure = None if task.cancelled() else task.exception()
            if isinstance(failure, Refused):
                events.close(frame("problem", json.loads(problem_of(request, failure).body)))
            else:
                events.close()

        running = asyncio.create_task(admitted(run_work))
        running.add_done_callback(finish)
        first = await events.first()
        if first is None:
            return response(await running)
        return StreamingResponse(events.stream(first), headers=EVENT_HEADERS)

    def _refuse_strangers(self, request: Request, route: Route) -> None:
        if route.changes or route.name == "mcp":
            allowed = {*self._settings.cors_origins} - ({"*"} if route.changes else set())
            refuse_foreign_page(request, self._settings.hosts, allowed)
        if route.changes and not is_own(self._host, ()):
            raise Refused(403, "loopback_only", LOOPBACK_ONLY)

    async def _admitted(
        self,
        request: Request,
        route: RouteName,
        caller: Caller,
        demand: Demand,
        work: Callable[[], Reply],
    ) -> Reply:
        address = request.client.host if request.client is not None else ""
        deadline = Deadline.after(request.state.arrived + demand.timeout_s - time.time())
        try:
            return await self._admissions[demand.work].run(
                work,
                caller=address if self._settings.auth == "off" else caller.sub,
                deadline=deadline,
                hang_up=partial(hang_up, request),
                units=demand.units,
            )
        except Overloaded as exc:
            self._telemetry.count("rag_requests_total", route=route, status="503")
            await asyncio.sleep(min(REFUSAL_DELAY_S, deadline.remaining()))
            headers = {"Retry-After": str(exc.retry_after_s)}
            raise Refused(503, "overloaded", OVERLOADED, headers) from exc
        except TooLate as exc:
            raise Refused(504, "deadline_exceeded", TOO_LATE) from exc
        except ClientGone as exc:
            raise Refused(400, "client_disconnected", "The client hung up.") from exc
