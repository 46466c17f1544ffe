"""Alarms on what the functions lean on: the index, the tables, the queue, the gateway's limits.

Metrics and thresholds of the index are those of the OpenSearch Service guide, "Recommended
CloudWatch alarms"; a threshold that depends on size is taken from the settings.
"""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.observability import FIVE_MINUTES, Observability
from infra.settings import Index

GATEWAY_NAMESPACE = "DocsToKG/Gateway"
FREE_SHARE = 0.25
STALE_S = 900
THROTTLED = 20
MIB_PER_GIB = 1024


class Dependencies(Construct):
    """One alarm for each way a store is known to fail."""

    def __init__(  # noqa: PLR0913 - constructs are given resources by name
        self,
        scope: Construct,
        construct_id: str,
        *,
        observability: Observability,
        index: Index,
        domain_name: str,
        tables: Sequence[dynamodb.ITable],
        traces: sqs.IQueue,
        access_logs: logs.ILogGroup,
    ) -> None:
        super().__init__(scope, construct_id)
        self._observability, self._domain_name = observability, domain_name
        self._index(index)
        for table in tables:
            self._table(table)
        observability.alarm(
            "TracesOld",
            traces.metric_approximate_age_of_oldest_message(
                period=FIVE_MINUTES, statistic="Maximum"
            ),
            STALE_S,
            say="A trace waits for over 15 minutes: the function record does not keep up.",
        )
        throttled = logs.MetricFilter(
            self,
            "Throttled",
            log_group=access_logs,
            filter_pattern=logs.FilterPattern.string_value("$.status", "=", "429"),
            metric_namespace=GATEWAY_NAMESPACE,
            metric_name=f"throttled-{observability.environment}",
            metric_value="1",
        )
        observability.alarm(
            "ApiThrottled",
            throttled.metric(period=FIVE_MINUTES, statistic="Sum"),
            THROTTLED,
            say="Over 20 callers in five minutes were told to come back: quota, rate or budget.",
        )

    def _index(self, index: Index) -> None:
        free = index.volume_gib * MIB_PER_GIB * FREE_SHARE
        rows: tuple[tuple[str, str, str, float, int, str], ...] = (
            ("IndexRed", "ClusterStatus.red", "Maximum", 0, 1, "A primary shard is not there."),
            ("IndexYellow", "ClusterStatus.yellow", "Maximum", 0, 3, "A replica is not there."),
            ("IndexBlocked", "ClusterIndexWritesBlocked", "Maximum", 0, 1, "Writes are refused."),
            ("IndexSnapshot", "AutomatedSnapshotFailure", "Maximum", 0, 1, "A snapshot failed."),
            ("IndexKey", "KMSKeyError", "Maximum", 0, 1, "The domain cannot use its key."),
            ("IndexCpu", "CPUUtilization", "Average", 80, 3, "CPU over 80 %."),
            ("IndexMemory", "JVMMemoryPressure", "Maximum", 95, 3, "Heap over 95 %."),
        )
        for construct_id, name, statistic, threshold, periods, say in rows:
            self._observability.alarm(
                construct_id, self._of_domain(name, statistic), threshold, periods=periods, say=say
            )
        self._observability.alarm(
            "IndexStorage",
            self._of_domain("FreeStorageSpace", "Minimum"),
            free,
            periods=1,
            under=True,
            say="Less than a quarter of a node's disk is free.",
        )

    def _of_domain(self, name: str, statistic: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/ES",
            metric_name=name,
            statistic=statistic,
            period=FIVE_MINUTES,
            dimensions_map={
                "DomainName": self._domain_name,
                "ClientId": cdk.Stack.of(self).account,
            },
        )

    def _table(self, table: dynamodb.ITable) -> None:
        events = {
            name.lower(): cloudwatch.Metric(
                namespace="AWS/DynamoDB",
                metric_name=f"{name}ThrottleEvents",
                statistic="Sum",
                period=FIVE_MINUTES,
                dimensions_map={"TableName": table.table_name},
            )
            for name in ("Read", "Write")
        }
        self._observability.alarm(
            f"Throttles{table.node.id}",
            cloudwatch.MathExpression(
                expression="read + write",
                using_metrics=events,
                period=FIVE_MINUTES,
                label="refused",
            ),
            0,
            say=f"{table.node.id}: reads or writes are refused; the table's own limits.",
        )
