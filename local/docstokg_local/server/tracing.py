"""Traces of requests."""

from os import environ
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from docstokg import __version__
from docstokg.observability import TRACER, Telemetry, note

if TYPE_CHECKING:
    from docstokg.adapters.otel import OpenTelemetry

HEALTH = "/v1/health"
NOT_INSTALLED = (
    "OTEL_* variables are set, but the exporter is not installed: pip install 'docstokg[otel]'"
)


def tracer_of(telemetry: Telemetry) -> "OpenTelemetry | None":
    """Return the tracer of OTEL_* variables; None if off, not OTLP or not installed (logged)."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true"
    is_otlp = environ.get("OTEL_TRACES_EXPORTER", "otlp") == "otlp"
    if is_off or not is_otlp or not any(name.startswith("OTEL_") for name in environ):
        return None
    try:
        from docstokg.adapters.otel import OpenTelemetry
    except ModuleNotFoundError:
        telemetry.log("WARNING", "not_traced", error=NOT_INSTALLED)
        return None
    return OpenTelemetry(__version__, environ)


class Traced:
    """Opens the span of each request to the API, except health."""

    def __init__(self, app: ASGIApp, tracer: "OpenTelemetry") -> None:
        self._app, self._tracer = app, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application; close the tracer after its lifespan."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            self._tracer.close()
            return
        if not scope["path"].startswith(("/v1/", "/mcp")) or scope["path"] == HEALTH:
            await self._app(scope, receive, send)
            return

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                note(status=message["status"])
            await send(message)

        with self._tracer.request(scope["method"], Headers(scope=scope)):
            token = TRACER.set(self._tracer)
            try:
                await self._app(scope, receive, noted)
            finally:
                TRACER.reset(token)
