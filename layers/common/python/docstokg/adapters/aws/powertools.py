"""Lambda metrics and logs."""

import itertools
import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from docstokg.adapters.aws.xray import DAEMON, XRay
from docstokg.contracts.response import REASONS
from docstokg.observability import Line, Telemetry, text_of

NAMESPACE = "DocsToKG"
_LOGGERS = itertools.count()
# Labels, and their values, that make a separate metric, each at a cost.
DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "reason": tuple(REASONS),
    "hit": ("true",),
    "step": ("embed", "search", "hydrate"),
}


class EmfSink:
    """A `MetricSink`; `environment` is a dimension of every metric.

    Other labels are properties. Counters with a dimension are also counted without it.
    """

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._open: dict[tuple[tuple[str, str], ...], EphemeralMetrics] = {}

    def record(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Record one value until `flush`."""
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


class RedactingFormatter(LambdaPowertoolsFormatter):
    """JSON formatter of log lines."""

    def __init__(self, *, reveal: bool) -> None:
        super().__init__()
        self._reveal = reveal

    def serialize(self, log: dict[str, Any]) -> str:  # type: ignore[override]
        """Return message and trace id as JSON, private fields redacted unless `reveal` is set."""
        trace = {"xray_trace_id": log["xray_trace_id"]} if "xray_trace_id" in log else {}
        return text_of({**log["message"], **trace}, reveal=self._reveal)


def log_writer(*, reveal: bool) -> Callable[[Line], None]:
    """Return a function that logs a line; `reveal`: private fields are not redacted."""
    formatter = RedactingFormatter(reveal=reveal)
    name = f"docstokg-{next(_LOGGERS)}"  # a name's first logger keeps its formatter
    logger = Logger(service=name, level="DEBUG", stream=sys.stderr, logger_formatter=formatter)
    logging.getLogger(name).propagate = False  # a handler of the root would not redact
    return lambda line: getattr(logger, line["level"].lower())(line)


def function_telemetry(environment: str, level: str, *, reveal: bool) -> Telemetry:
    """Return the telemetry of a Lambda function; segments only if X-Ray is active."""
    segments = XRay().record if DAEMON in os.environ else None
    sink, log_line = EmfSink(environment), log_writer(reveal=reveal)
    return Telemetry(sink, level=level, segments=segments, log_line=log_line)
