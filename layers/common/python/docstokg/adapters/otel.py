"""OpenTelemetry spans (OTLP over HTTP).

Attributes follow its semantic conventions (GenAI); no question or passage is exported.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

# Maximum seconds to send the last spans at the end of the process.
FLUSH_S = 2.0
_SERVER_ERROR = 500
_CALLS = {"HTTP": SpanKind.CLIENT, "chat": SpanKind.CLIENT}
_OPERATIONS = {"chat": "chat", "embed": "embeddings", "search": "retrieval"}
_ATTRIBUTES = {
    "channels": "docstokg.channels",
    "chunks": "docstokg.chunks",
    "max_tokens": "gen_ai.request.max_tokens",
    "method": "http.request.method",
    "model": "gen_ai.request.model",
    "namespace": "gen_ai.data_source.id",
    "provider": "gen_ai.provider.name",
    "request_id": "docstokg.request_id",
    "route": "http.route",
    "server": "peer.service",
    "status": "http.response.status_code",
    "temperature": "gen_ai.request.temperature",
    "tokens_in": "gen_ai.usage.input_tokens",
    "tokens_out": "gen_ai.usage.output_tokens",
    "top_k": "gen_ai.request.top_k",
}


class OpenTelemetry:
    """The `Tracer` of a process, configured by OTEL_* variables.

    A thread sends the spans, or drops them if the receiver fails.
    """

    def __init__(self, version: str, environ: Mapping[str, str]) -> None:
        named = "OTEL_SERVICE_NAME" in environ or "service.name=" in environ.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        resource = Resource.create({} if named else {"service.name": "docstokg"})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("docstokg", version)

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Iterator[None]:
        """Open the span of a request, below that of its `traceparent`."""
        parent = TraceContextTextMapPropagator().extract(headers)
        with self._open(method, SpanKind.SERVER, {"method": method}, parent):
            yield

    @contextmanager
    def span(self, name: str, fields: Mapping[str, object]) -> Iterator[None]:
        """Open a span below the current one."""
        with self._open(name, _CALLS.get(name, SpanKind.INTERNAL), fields, None):
            yield

    def note(self, fields: Mapping[str, object]) -> None:
        """Add known fields to the current span; a status from 500 marks it failed.

        `route`, only with `method`, renames it.
        """
        span, status = trace.get_current_span(), fields.get("status")
        span.set_attributes(_attributes(fields))
        if "route" in fields:
            span.update_name(f"{fields['method']} {fields['route']}")
        if isinstance(status, int) and status >= _SERVER_ERROR:
            span.set_status(StatusCode.ERROR)

    def close(self) -> None:
        """Send the last spans, for at most FLUSH_S seconds."""
        last = threading.Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(FLUSH_S)

    @contextmanager
    def _open(
        self, name: str, kind: SpanKind, fields: Mapping[str, object], parent: Context | None
    ) -> Iterator[None]:
        attributes = _attributes(fields)
        if operation := _OPERATIONS.get(name):
            attributes["gen_ai.operation.name"] = operation
            target = fields.get("model") or fields.get("namespace")
            name = f"{operation} {target}"
        with self._tracer.start_as_current_span(
            name,
            parent,
            kind,
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except BaseException as error:
                # Only the error type: a vendor's message may contain the question.
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise


def _attributes(fields: Mapping[str, object]) -> dict[str, str | int | float]:
    return {
        _ATTRIBUTES[name]: value
        for name, value in fields.items()
        if name in _ATTRIBUTES and isinstance(value, str | int | float)
    }
