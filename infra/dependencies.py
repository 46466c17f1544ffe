"""Alarms for index, tables, queue, gateway limits and firewall.

Metrics and thresholds of the index: OpenSearch Service guide, "Recommended CloudWatch alarms".
"""

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs

from infra.data_stack import DataStack
from infra.firewall import RATE
from infra.observability import FIVE_MINUTES, Observability
from infra.sizing import FREE_SHARE

UNDER = ("Storage", "Nodes", "Managers")
STALE_S = 900
THROTTLED = 20
# Thread pools of the index whose rejections are counted since the start of a node.
REJECTED = ("Search", "Write")
MIB_PER_GIB = 1024


def watch_dependencies(
    observability: Observability, data: DataStack, traces: sqs.IQueue, access_logs: logs.ILogGroup
) -> None:
    """Create the alarms for index, tables, trace queue and throttled requests."""
    account = cdk.Stack.of(observability).account
    domain = {"DomainName": data.search.domain_name, "ClientId": account}
    index = data.target.index
    free = index.volume_gib * MIB_PER_GIB * FREE_SHARE
    watched = [
        ("Red", "ClusterStatus.red", "Maximum", 0, 1, "A primary shard is not there."),
        ("Yellow", "ClusterStatus.yellow", "Maximum", 0, 3, "A replica is not there."),
        ("Blocked", "ClusterIndexWritesBlocked", "Maximum", 0, 1, "Writes are refused."),
        ("Snapshot", "AutomatedSnapshotFailure", "Maximum", 0, 1, "A snapshot failed."),
        ("Key", "KMSKeyError", "Maximum", 0, 1, "The domain cannot use its key."),
        ("Cpu", "CPUUtilization", "Average", 80, 3, "CPU over 80 %."),
        ("Memory", "JVMMemoryPressure", "Maximum", 95, 3, "Heap over 95 %."),
        ("Storage", "FreeStorageSpace", "Minimum", free, 1, "Under a quarter of a disk is free."),
    ]
    if index.kind == "managed":
        nodes = index.data_nodes + index.managers
        watched.append(("Nodes", "Nodes", "Minimum", nodes, 3, "A node is not there."))
    if index.managers:
        watched += [
            ("Managers", "MasterReachableFromNode", "Maximum", 1, 2, "No manager is reached."),
            ("ManagerCpu", "MasterCPUUtilization", "Average", 50, 3, "Managers: CPU over 50 %."),
            ("ManagerMemory", "MasterJVMMemoryPressure", "Maximum", 95, 3, "Managers: heap."),
        ]
    for name, metric, statistic, threshold, periods, description in watched:
        measured = cloudwatch.Metric(
            namespace="AWS/ES", metric_name=metric, statistic=statistic, dimensions_map=domain
        )
        observability.alarm(
            f"Index{name}", measured, threshold, periods, description, under=name in UNDER
        )
    for pool in REJECTED:
        total = cloudwatch.Metric(
            namespace="AWS/ES",
            metric_name=f"Threadpool{pool}Rejected",
            statistic="Sum",
            dimensions_map=domain,
        )
        new = cloudwatch.MathExpression(expression="DIFF(total)", using_metrics={"total": total})
        description = f"The index refuses {pool.lower()} requests: its queue is full."
        observability.alarm(f"IndexRejects{pool}", new, 0, 1, description)
    for table in (data.state.cache, data.state.circuit):
        refused = {
            name.lower(): table.metric(f"{name}ThrottleEvents", statistic="Sum")
            for name in ("Read", "Write")
        }
        both = cloudwatch.MathExpression(
            expression="read + write", using_metrics=refused, label="refused"
        )
        description = f"{table.node.id}: reads or writes are refused; the table's own limits."
        observability.alarm(f"Throttles{table.node.id}", both, 0, 2, description)
    oldest = traces.metric_approximate_age_of_oldest_message(statistic="Maximum")
    late = "A trace waits for over 15 minutes: the function record does not keep up."
    observability.alarm("TracesOld", oldest, STALE_S, 2, late)
    told_off = observability.logged("Throttled", access_logs, '{ $.status = "429" }', FIVE_MINUTES)
    over = "Over 20 callers in five minutes were told to come back: quota, rate or budget."
    observability.alarm("ApiThrottled", told_off, THROTTLED, 2, over)


def watch_firewall(observability: Observability, acl: str) -> None:
    """Create an alarm for requests that the rate rule of a web ACL refuses."""
    region = cdk.Stack.of(observability).region
    refused = cloudwatch.Metric(
        namespace="AWS/WAFV2",
        metric_name="BlockedRequests",
        statistic="Sum",
        dimensions_map={"WebACL": acl, "Rule": RATE, "Region": region},
    )
    description = "The firewall refused over 20 requests in five minutes for their address's rate."
    observability.alarm("WafThrottled", refused, THROTTLED, 2, description)
