"""The routes of the contract on a laptop, in two groups: by the state machine, by a function."""

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
from docstokg.errors import DocsToKGError
from docstokg.settings import Settings
from docstokg.usecases.chat import error_reply, models_reply
from docstokg.usecases.live import EVENT_HEADERS
from docstokg.wiring import Handler, Wiring
from docstokg_local.engine.engine import never
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.server.admission import (
    SLOTS,
    Admission,
    ClientGone,
    CoalescedCall,
    Overloaded,
    TooLate,
)
from docstokg_local.server.authentication import Authentication
from docstokg_local.server.exchange import (
    Refused,
    RequestOptions,
    caller_of,
    chat_options,
    hang_up,
    json_body,
    problem_of,
    refuse_foreign_page,
    request_options,
    response,
)
from docstokg_local.server.guards import is_own
from docstokg_local.server.jobs import JobRunner
from docstokg_local.server.live import Events, frames_of, listening, wants_events
from docstokg_local.server.routes import parameters_of, route_functions

HEALTH_FRESH_S = INFO_S = 1.0
SERVER_SLOTS = 4
"""With stores that are servers a request waits for them part of its time."""
REMOTE_SLOTS = 16
REFUSAL_DELAY_S = 0.25
"""Before a refusal is sent: clients that ask again at once take less from the others."""

LOOPBACK_ONLY = (
    "Without keys (DOCSTOKG_AUTH=keys) documents are loaded and removed on a loopback address only."
)
OVERLOADED = "Too many requests wait already to meet this deadline; see Retry-After."
TOO_LATE = "The deadline passed before the answer was complete."
QUEUE_ROUTES = ("load", "delete", "job", "cancel")
Endpoint = Callable[[Request], Awaitable[Response]]


class Endpoints:
    """What answers each route of the contract: who asks, whether there is room, and the work."""

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
        self._local = Admission(SLOTS if is_embedded else SERVER_SLOTS)
        self._remote = Admission(REMOTE_SLOTS)
        self._health = CoalescedCall(lambda: functions["health"]({}, None), HEALTH_FRESH_S)

    def of(self, route: Route) -> Endpoint:
        """Give the endpoint of a route: health, one function, or the whole state machine."""
        if route.name == "health":
            return self._get_health
        if route.name == "models":
            return self._get_models
        if route.name == "stream":  # what a function tells in AWS is told by this process
            return self._by_workflow("answer", is_told=True)
        if route.function:
            return self._by_function(route, self._functions[route.function])
        return self._by_workflow(route.name)

    async def _get_health(self, request: Request) -> Response:
        return response(Reply.model_validate(await self._health()))

    async def _get_models(self, request: Request) -> Response:
        """List who can answer here now, and where: what has no key or address is left out."""
        caller = caller_of(request, self._authentication)
        models, wiring = self._settings.models, self._wiring
        ready = {EXTRACTIVE, *wiring.model_access().remote(models)}
        try:
            stored = (await asyncio.to_thread(wiring.search_index().info, INFO_S)).namespaces
        except DocsToKGError:  # names of models need no store
            stored = ()
        return response(models_reply(caller, tuple(m for m in models if m in ready), stored))

    def _by_workflow(self, route: RouteName, *, is_told: bool = False) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            caller = caller_of(request, self._authentication)
            body = b"" if request.method == "GET" else await json_body(request)
            read_options = chat_options if route == "chat" else request_options
            chosen = self._settings
            options = read_options(body, chosen.default_timeout_s, chosen.max_timeout_s)
            arrived = request.state.arrived

            def work(gone: Callable[[], bool]) -> Reply:
                envelope = Envelope.of(route, request.state.request_id, caller, body)
                reply = self._workflow.run(envelope, arrived=arrived, gone=gone)
                return error_reply(reply) if route in CHAT_ROUTES else reply

            admission = self._remote if options.remote else self._local
            admitted = partial(self._admitted, request, route, caller, options, admission)
            if is_told or wants_events(request, route, body):
                return await self._streamed(request, route, body, work, admitted)
            abandoned = threading.Event()
            try:
                return response(await admitted(partial(work, abandoned.is_set)))
            finally:
                abandoned.set()  # what is still at work for this request stops at its next step

        return endpoint

    def _by_function(self, route: Route, function: Handler) -> Endpoint:
        options = RequestOptions(self._settings.max_timeout_s)

        async def endpoint(request: Request) -> Response:
            if self._settings.auth == "off":
                self._refuse_strangers(request, route)
            caller = caller_of(request, self._authentication)
            posted = route.method == "POST"
            body = (
                await json_body(request, route.body_bytes)
                if posted
                else parameters_of(route, request)
            )

            def work(gone: Callable[[], bool]) -> Reply:
                envelope = Envelope.of(route.name, request.state.request_id, caller, body)
                return Reply.model_validate(function(envelope.model_dump(mode="json"), None))

            admitted = partial(self._admitted, request, route.name, caller, options, self._local)
            if wants_events(request, route.name, body):
                return await self._streamed(request, route.name, body, work, admitted)
            reply = await admitted(partial(work, never))
            if route.name in QUEUE_ROUTES:
                self._job_runner.wake()
            return response(reply)

        return endpoint

    async def _streamed(
        self,
        request: Request,
        route: RouteName,
        body: bytes,
        work: Callable[[Callable[[], bool]], Reply],
        admitted: Callable[[Callable[[], Reply]], Coroutine[Any, Any, Reply]],
    ) -> Response:
        """Send what is told of an answer as it comes; what fails before that is a reply as ever."""
        request_id = request.state.request_id
        frame = frames_of(route, request_id, body)
        events = Events(self._settings.max_timeout_s)
        live = self._listening(lambda name, value: events.put(frame(name, value)))

        def told() -> Reply:
            with self._workflow.telling(request_id, live):
                reply = work(events.gone.is_set)
            live.finish(reply, route)
            return reply

        def ended(task: asyncio.Task[Reply]) -> None:
            failure = None if task.cancelled() else task.exception()
            if isinstance(failure, Refused):
                problem = problem_of(request, failure.status, failure.code, failure.detail)
                events.close(frame("problem", json.loads(problem.body)))
            else:
                events.close()

        running = asyncio.create_task(admitted(told))
        running.add_done_callback(ended)
        first = await events.first()
        if first is None:
            return response(await running)
        return StreamingResponse(events.stream(first), headers=EVENT_HEADERS)

    def _refuse_strangers(self, request: Request, route: Route) -> None:
        """Without keys: no page of another site, and changes on this machine only."""
        if route.changes or route.name == "mcp":
            refuse_foreign_page(request, self._settings.hosts)
        if route.changes and not is_own(self._host, ()):
            raise Refused(403, "loopback_only", LOOPBACK_ONLY)

    async def _admitted(
        self,
        request: Request,
        route: RouteName,
        caller: Caller,
        options: RequestOptions,
        admission: Admission,
        work: Callable[[], Reply],
    ) -> Reply:
        """Run `work` before the request's deadline, or raise `Refused`.

        Callers of a server without keys are told apart by their addresses.
        """
        address = request.client.host if request.client is not None else ""
        waited = time.time() - request.state.arrived
        try:
            return await admission.run(
                work,
                caller=address if self._settings.auth == "off" else caller.sub,
                ends=time.monotonic() - waited + options.timeout_s,
                hang_up=partial(hang_up, request),
            )
        except Overloaded as exc:
            self._telemetry.count("rag_requests_total", route=route, status="503")
            await asyncio.sleep(REFUSAL_DELAY_S)
            headers = {"Retry-After": str(exc.retry_after_s)}
            raise Refused(503, "overloaded", OVERLOADED, headers) from exc
        except TooLate as exc:
            raise Refused(504, "deadline_exceeded", TOO_LATE) from exc
        except ClientGone as exc:
            raise Refused(400, "client_disconnected", "The client hung up.") from exc
