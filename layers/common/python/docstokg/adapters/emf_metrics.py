"""Metrics as CloudWatch embedded metric format lines, one flush per invocation."""

from collections.abc import Mapping

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

NAMESPACE = "DocsToKG"
DIMENSIONS = ("reason", "mode", "dependency")


class EmfSink:
    """The MetricSink of Lambda; `environment` is a dimension of every metric.

    Of the labels only those in DIMENSIONS become dimensions too: each combination is a metric
    that costs money, and nobody alarms on a route's status.
    """

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._open: dict[tuple[tuple[str, str], ...], EphemeralMetrics] = {}

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Keep one value until `flush`."""
        chosen = tuple(sorted((k, v) for k, v in labels.items() if k in DIMENSIONS))
        metrics = self._open.get(chosen)
        if metrics is None:
            metrics = EphemeralMetrics(namespace=NAMESPACE)
            metrics.set_default_dimensions(environment=self._environment, **dict(chosen))
            self._open[chosen] = metrics
        unit = MetricUnit.Seconds if name.endswith("_seconds") else MetricUnit.Count
        metrics.add_metric(name=name, unit=unit, value=value)

    def flush(self) -> None:
        """Print one line per set of dimensions."""
        while self._open:
            _, metrics = self._open.popitem()
            metrics.flush_metrics(raise_on_empty_metrics=False)
