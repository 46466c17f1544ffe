"""Logs, metrics, spans."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal, Protocol

Kind = Literal["counter", "histogram"]
REDACTED = "<REDACTED>"
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
PRIVATE_FIELDS = ("query", "snippets", "answer")

# Labels of request and answer provider; "" if a request ended earlier.
ASKED = ("namespace", "synthesis", "mode", "provider")

METRICS: dict[str, tuple[Kind, tuple[str, ...], str]] = {
    "rag_requests_total": ("counter", ("route", "status", *ASKED), "requests answered"),
    "rag_refused_requests_total": ("counter", ("code",), "requests refused before any work"),
    "rag_cache_hits_total": ("counter", ("hit",), "requests with a cache_key, by what was found"),
    "rag_request_latency_seconds": ("histogram", ("route", *ASKED), "whole execution"),
    "rag_step_latency_seconds": ("histogram", ("step",), "one step or one external call"),
    "rag_found_requests_total": ("counter", (), "requests for which a passage was found"),
    "rag_budget_chunks_used": ("histogram", (), "citations returned"),
    "rag_budget_tokens_gen_used": ("histogram", (), "tokens generated"),
    "rag_kg_concepts_expanded": ("histogram", (), "entities expanded"),
    "rag_kg_chunks_added": ("histogram", (), "chunks only the graph brought"),
    "rag_degraded_requests_total": ("counter", ("reason",), "requests answered with less"),
    "rag_kg_hits_total": ("counter", ("hit",), "requests whose citations carry graph evidence"),
    "rag_kg_boost_impact": ("histogram", (), "chunks that lead the walk otherwise for the boost"),
    "rag_kg_2hop_total": ("counter", (), "requests that used a second hop"),
    "rag_citation_errors_total": ("counter", (), "orphan or malformed markers"),
    "rag_doubted_answers_total": ("counter", ("cause",), "answers their sources do not carry"),
    "rag_confidence": ("histogram", (), "confidence of answers"),
    "rag_estimated_cost_usd": ("counter", (), "model cost as the price list has it"),
    "query_verbosity_total": ("counter", ("mode",), "requests by verbosity"),
    "graph_expand_nodes_total": ("counter", (), "nodes expanded in walks"),
    "graph_pruned_nodes_total": ("counter", (), "nodes pruned in walks"),
    "graph_depth_histogram": ("histogram", (), "depth reached in walks"),
    "cypher_explain_reject_total": ("counter", ("template",), "templates the plan guard refused"),
    "cypher_timeout_total": ("counter", ("template",), "queries that ran out of time"),
    "ingest_running_seconds": ("histogram", (), "how long the oldest load has been running"),
    "ingest_given_up_total": ("counter", (), "loads of changes that failed at every try"),
    "ingest_kept_back_total": ("counter", (), "deletions of documents that need agreement"),
    "index_resize_due": ("histogram", (), "1 if shards or replicas are not as configured"),
    "circuit_open_total": ("counter", ("dependency",), "circuits that opened"),
}


class MetricSink(Protocol):
    """Destination of metrics."""

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Record one value of a metric in METRICS; others may raise KeyError."""

    def flush(self) -> None:
        """Send the recorded values; called at the end of an invocation."""


# Receives a trace segment: name, begin and end in epoch seconds, "ok" or the error type.
Segments = Callable[[str, float, float, str], None]


class Tracer(Protocol):
    """Destination of the spans of a request."""

    def span(self, name: str, fields: Mapping[str, object]) -> AbstractContextManager[None]:
        """Open a span below the current one."""

    def note(self, fields: Mapping[str, object]) -> None:
        """Add fields to the current span."""


# Tracer of the current request; threads of a request run in a copy of its context.
TRACER: ContextVar[Tracer | None] = ContextVar("tracer", default=None)


def traced(name: str, **fields: object) -> AbstractContextManager[None]:
    """Return the span of a block, or a null context if the request is not traced."""
    tracer = TRACER.get()
    return nullcontext() if tracer is None else tracer.span(name, fields)


def note(**fields: object) -> None:
    """Add fields to the current span, if the request is traced."""
    if (tracer := TRACER.get()) is not None:
        tracer.note(fields)


# Fields of a log line.
Line = Mapping[str, Any]


def text_of(line: Line, *, reveal: bool) -> str:
    """Return a log line as JSON; private fields are redacted unless `reveal` is set."""
    fields = {
        key: REDACTED if key in PRIVATE_FIELDS and not reveal else value
        for key, value in line.items()
    }
    return json.dumps(fields, ensure_ascii=False, default=str)


class Telemetry:
    """Logs, metrics and traces of steps and adapters."""

    def __init__(
        self,
        sink: MetricSink | None = None,
        write: Callable[[str], object] = lambda line: sys.stderr.write(line + "\n"),
        level: str = "INFO",
        reveal: bool = False,
        segments: Segments | None = None,
        log_line: Callable[[Line], object] | None = None,
    ) -> None:
        """`log_line` replaces `write` and gets unredacted lines."""
        self._sink = sink
        self._segments = segments
        self._log_line = log_line or (lambda line: write(text_of(line, reveal=reveal)))
        self._threshold = LEVELS.index(level)
        # Called with the exception that ended a span.
        self.on_error: Callable[[Exception], None] = lambda _: None

    def count(self, name: str, value: float = 1.0, **labels: str) -> None:
        """Add to a counter, or observe one value of a histogram; nothing without a sink."""
        if self._sink:
            self._sink.record(name, value, labels)

    def flush(self) -> None:
        """Send the metrics of one invocation."""
        if self._sink:
            self._sink.flush()

    def log(self, level: str, event: str, **fields: object) -> None:
        """Write one JSON line, redacted, if its level is enabled; ValueError outside LEVELS."""
        if LEVELS.index(level) < self._threshold:
            return
        head = {"level": level, "event": event, "time_ms": int(time.time() * 1000)}
        self._log_line({**head, **fields})

    @contextmanager
    def span(self, name: str, **fields: object) -> Iterator[None]:
        """Time one step or external call: metric and trace always, a line at DEBUG."""
        started = time.perf_counter()
        outcome = "ok"
        try:
            with traced(name, **fields):
                yield
        except Exception as exc:
            outcome = type(exc).__name__
            self.on_error(exc)
            raise
        finally:
            seconds = time.perf_counter() - started
            if self._segments:
                now = time.time()
                self._segments(name, now - seconds, now, outcome)
            self.count("rag_step_latency_seconds", seconds, step=name)
            self.log(
                "DEBUG", "span", span=name, ms=round(seconds * 1000, 2), outcome=outcome, **fields
            )
