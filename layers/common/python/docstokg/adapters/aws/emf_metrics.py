"""Metrics as CloudWatch embedded metric format lines, one flush per invocation."""

from collections.abc import Mapping

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from docstokg.observability import METRICS

NAMESPACE = "DocsToKG"
DIMENSIONS = ("reason", "mode", "dependency", "hit", "step", "template", "code")


class EmfSink:
    """The MetricSink of Lambda; `environment` is a dimension of every metric.

    Of the labels only those in DIMENSIONS become dimensions too: each combination is a metric
    that costs money, and nobody alarms on a route's status. A counter with such a label is counted
    once more without it, because an alarm cannot sum over all reasons; a histogram is not, since
    the mean of an embedding and a model's answer says nothing.
    """

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._open: dict[tuple[tuple[str, str], ...], EphemeralMetrics] = {}

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Keep one value until `flush`."""
        chosen = tuple(sorted((k, v) for k, v in labels.items() if k in DIMENSIONS))
        unit = MetricUnit.Seconds if name.endswith("_seconds") else MetricUnit.Count
        summed = METRICS[name][0] == "counter"
        for dimensions in {(), chosen} if summed else {chosen}:
            self._metrics(dimensions).add_metric(name=name, unit=unit, value=value)

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
