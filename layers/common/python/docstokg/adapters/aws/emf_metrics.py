"""Metrics as CloudWatch embedded metric format lines, one flush per invocation."""

from collections.abc import Mapping
from typing import get_args

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from docstokg.contracts.response import DegradedReason

NAMESPACE = "DocsToKG"
DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "reason": get_args(DegradedReason),
    "hit": ("true",),
    "step": ("embed", "search", "hydrate"),
}
"""Labels, and those of their values, that make a metric of their own: each costs money."""


class EmfSink:
    """The MetricSink of Lambda; `environment` is a dimension of every metric.

    What is no dimension is a property of the line, where a query finds it; of one name that is
    told twice the last. A counter with a dimension is counted once more without it, because an
    alarm cannot sum over all reasons; a step is not, since the mean of an embedding and a model's
    answer says nothing.
    """

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._open: dict[tuple[tuple[str, str], ...], EphemeralMetrics] = {}

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Keep one value until `flush`."""
        chosen = tuple((k, v) for k, v in labels.items() if v in DIMENSIONS.get(k, ()))
        unit = MetricUnit.Seconds if name.endswith("_seconds") else MetricUnit.Count
        for dimensions in {(), chosen} if "step" not in labels else {chosen} - {()}:
            metrics = self._metrics(dimensions)
            metrics.add_metric(name=name, unit=unit, value=value)
            for label in labels.keys() - DIMENSIONS.keys():
                metrics.add_metadata(label, labels[label])

    def _metrics(self, dimensions: tuple[tuple[str, str], ...]) -> EphemeralMetrics:
        if dimensions not in self._open:
            metrics = EphemeralMetrics(namespace=NAMESPACE)
            metrics.set_default_dimensions(environment=self._environment, **dict(dimensions))
            self._open[dimensions] = metrics
        return self._open[dimensions]

    def flush(self) -> None:
        """Print one line per set of dimensions."""
        while self._open:
            _, metrics = self._open.popitem()
            metrics.flush_metrics(raise_on_empty_metrics=False)
