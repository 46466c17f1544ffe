"""The local HTTP API."""

from functools import partial

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from docstokg.adapters.sqlite.jobs import SqliteJobs
from docstokg.errors import DocsToKGError, cause
from docstokg.usecases.chat_reply import WARNING_HEADER
from docstokg.wiring import Wiring
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.server import openapi
from docstokg_local.server.authentication import Authentication
from docstokg_local.server.endpoints import Endpoints
from docstokg_local.server.exchange import EXCEPTION_HANDLERS, Refused, RequestIds, caller_of
from docstokg_local.server.guards import CrossOrigin
from docstokg_local.server.jobs import JobRunner
from docstokg_local.server.pages import page_routes
from docstokg_local.server.prometheus import PrometheusSink
from docstokg_local.server.routes import starlette_routes
from docstokg_local.server.tracing import Traced, tracer_of

# Minimum bytes of a compressed body.
COMPRESSED_FROM = 1024


def application(wiring: Wiring, sink: PrometheusSink, host: str = "127.0.0.1") -> Starlette:
    """Return the ASGI application; raise `Misconfigured` for an invalid keys file.

    `wiring` reports to `sink`, which `GET /metrics` shows. `host`: the bound address.
    """
    settings = wiring.settings
    authentication = Authentication(settings, wiring.telemetry)
    workflow = LocalWorkflow(wiring)
    endpoints = Endpoints(settings, wiring, workflow, authentication, _job_runner(wiring), host)
    app = Starlette(
        routes=[
            *starlette_routes(endpoints.of),
            *_own_routes(sink, authentication, settings.open_metrics),
            Route(openapi.KEYS, partial(_receipt_keys, wiring)),
            *page_routes(),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    # Like API Gateway, accept one spelling per path.
    app.router.redirect_slashes = False
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED_FROM, compresslevel=5)
    if settings.cors_origins:
        # No cookies are read, so credentials are never allowed.
        app.add_middleware(
            CrossOrigin,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST", "DELETE"),
            allow_headers=("*",),
            allow_private_network=True,
            expose_headers=("X-Request-Id", "Retry-After", WARNING_HEADER),
        )
    app.add_middleware(RequestIds)
    if (tracer := tracer_of(wiring.telemetry)) is not None:
        app.add_middleware(Traced, tracer=tracer)
    return app


def _job_runner(wiring: Wiring) -> JobRunner:
    queue = wiring.job_queue()
    assert isinstance(queue, SqliteJobs)
    job_runner = JobRunner(wiring.settings, queue, wiring.telemetry)
    wiring.override("job_runner", job_runner)
    job_runner.wake()
    return job_runner


def _own_routes(sink: PrometheusSink, authentication: Authentication, is_open: bool) -> list[Route]:
    document = openapi.document()

    async def get_openapi(request: Request) -> Response:
        return JSONResponse(document)

    async def get_metrics(request: Request) -> Response:
        if not is_open:
            caller_of(request, authentication)
        return Response(sink.text(), media_type="text/plain; version=0.0.4")

    return [
        Route("/openapi.json", get_openapi),
        Route("/metrics", get_metrics),
    ]


async def _receipt_keys(wiring: Wiring, request: Request) -> Response:
    try:
        keys = await run_in_threadpool(wiring.receipt_keys)
    except DocsToKGError as error:
        wiring.telemetry.log("ERROR", "no_receipt_key", **cause(error))
        raise Refused(503, "unavailable", "The key of receipts cannot be read.") from error
    return JSONResponse(keys.key_set() if keys else {"keys": []})
