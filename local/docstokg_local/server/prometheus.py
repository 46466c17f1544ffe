"""In-memory metrics as Prometheus text."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from docstokg.observability import METRICS

_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 12.0, 25.0)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
# Namespaces with their own series: those in which something was found; others count as OTHER.
NAMESPACES = 20
FOUND = "rag_found_requests_total"
OTHER = "other"
_COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)


class PrometheusSink:
    """`MetricSink` of one process; `text` is the scraper's output.

    `shared`: folder in which all processes of a server count; then `text` is the sum of all.
    """

    def __init__(self, shared: str | None = None) -> None:
        self._shared = shared
        self._registry = CollectorRegistry()
        self._metrics: dict[str, Counter | Histogram] = {}
        self._namespaces: set[str] = set()
        for name, (kind, labels, text) in METRICS.items():
            make: type[Counter | Histogram] = Counter if kind == "counter" else Histogram
            options: dict[str, Any] = {} if make is Counter else {"buckets": _buckets(name)}
            self._metrics[name] = make(name, text, labels, registry=self._registry, **options)

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Add to a counter or observe a value of a histogram; raise KeyError outside `METRICS`.

        Namespaces without a series of their own count as `other`.
        """
        metric, names = self._metrics[name], METRICS[name][1]
        values = {label: labels.get(label, "") for label in names}
        if name == FOUND and len(self._namespaces) < NAMESPACES:
            self._namespaces.add(labels.get("namespace", ""))
        if values.get("namespace") and values["namespace"] not in self._namespaces:
            values["namespace"] = OTHER
        child = metric.labels(**values) if names else metric
        if isinstance(child, Counter):
            child.inc(value)
        else:
            child.observe(value)

    def flush(self) -> None:
        """Do nothing: metrics stay in memory."""

    def text(self) -> bytes:
        """Return the exposition format."""
        if self._shared is None:
            return generate_latest(self._registry)
        everybody = CollectorRegistry()
        MultiProcessCollector(everybody, self._shared)  # type: ignore[no-untyped-call]
        return generate_latest(everybody)


def _buckets(name: str) -> tuple[float, ...]:
    if name.endswith("_seconds"):
        return _SECONDS
    return _SHARES if name == "rag_confidence" else _COUNTS
