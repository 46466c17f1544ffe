"""Cost of a million requests, and of an idle environment.

List prices times the measured resource use of the bundles and the configured capacities.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.prune import KEPT_MACHINES
from infra.settings import ENVIRONMENTS, Environment, Index, environment
from infra.sizing import (
    ANSWER,
    FREE_SHARE,
    GRAPH_GB_USD,
    MEMORY_GIB,
    MODEL_S,
    READS_STORES,
    SEARCH,
    STORE_S,
    disk_gib,
    fits,
    gib_per_node,
    graph_gb,
    layout,
    limits,
    questions_per_second,
    slower,
)
from infra.specs import FUNCTIONS, ROOT

MEASURED = ROOT / "benchmarks" / "bundles.json"
UPLOADS = ROOT / "benchmarks" / "uploads.json"
MILLION = 1_000_000
GIGA = 1e9
MEMORY = {spec.name: spec.memory_mb for spec in FUNCTIONS}


@dataclass(frozen=True, slots=True)
class Price:
    """A list price in USD of us-east-1, first tier, no free tier, and its source page."""

    service: str
    usd: float
    unit: str
    page: str

    @property
    def each(self) -> str:
        """Return the price with its unit as text."""
        return f"{self.usd:.10f}".rstrip("0").rstrip(".") + f" USD a {self.unit}"


REST = Price("REST API, calls", 3.50, "million", "aws.amazon.com/api-gateway/pricing")
CALL = Price("Lambda, calls", 0.20, "million", "aws.amazon.com/lambda/pricing")
COMPUTE = Price("Lambda on arm64, time", 0.0000133334, "GB-second", "aws.amazon.com/lambda/pricing")
EXPRESS = Price("Step Functions Express", 1.00, "million", "aws.amazon.com/step-functions/pricing")
EXPRESS_TIME = Price(
    "Step Functions Express, time",
    0.06 / 3600,
    "GB-second",
    "aws.amazon.com/step-functions/pricing",
)
STANDARD = Price(
    "Step Functions Standard, transitions", 25.0, "million", "aws.amazon.com/step-functions/pricing"
)
S3_READ = Price("S3, reads", 0.40, "million", "aws.amazon.com/s3/pricing")
S3_WRITE = Price("S3, writes and lists", 5.00, "million", "aws.amazon.com/s3/pricing")
READ = Price("DynamoDB on demand, reads", 0.125, "million", "aws.amazon.com/dynamodb/pricing")
WRITE = Price("DynamoDB on demand, writes", 0.625, "million", "aws.amazon.com/dynamodb/pricing")
QUEUE = Price("SQS, requests", 0.40, "million", "aws.amazon.com/sqs/pricing")
LOGS = Price("CloudWatch Logs, taken in", 0.50, "GB", "aws.amazon.com/cloudwatch/pricing")
XRAY = Price("X-Ray, traces recorded", 5.00, "million", "aws.amazon.com/xray/pricing")
OUT = Price("data to the internet", 0.09, "GB", "aws.amazon.com/ec2/pricing/on-demand")
WAF = Price("WAF, requests", 0.60, "million", "aws.amazon.com/waf/pricing")
NODES = {
    "t3.small.search": 0.036, "t3.medium.search": 0.073, "m7g.medium.search": 0.068,
    "m7g.large.search": 0.135, "r7g.large.search": 0.178, "r7g.xlarge.search": 0.356,
}  # fmt: skip
"""OpenSearch Service, USD an hour."""
SEARCH_PAGE = "aws.amazon.com/opensearch-service/pricing"
DISK = Price("OpenSearch, gp3", 0.122, "GB-month", SEARCH_PAGE)
SNAPSHOT = Price("SnapStart, cache", 0.0000015046, "GB-second", "aws.amazon.com/lambda/pricing")
RESTORE = Price("SnapStart, restore", 0.0001397998, "GB", "aws.amazon.com/lambda/pricing")
KEY = Price("KMS, key", 1.0, "month", "aws.amazon.com/kms/pricing")
ENDPOINT = Price("VPC endpoint, zone", 0.01, "hour", "aws.amazon.com/privatelink/pricing")
SECRET = Price("Secrets Manager, secret", 0.40, "month", "aws.amazon.com/secrets-manager/pricing")
ALARM = Price("CloudWatch, alarm metric", 0.10, "month", "aws.amazon.com/cloudwatch/pricing")
METRIC = Price("CloudWatch, custom metric", 0.30, "month", "aws.amazon.com/cloudwatch/pricing")
ACL = Price("WAF, web ACL", 5.0, "month", "aws.amazon.com/waf/pricing")
RULE = Price("WAF, rule", 1.0, "month", "aws.amazon.com/waf/pricing")
FIXED = (DISK, SNAPSHOT, RESTORE, KEY, ENDPOINT, SECRET, ALARM, METRIC, ACL, RULE)
MONTH_H = 730
WORDS_IN = Price("gpt-4o-mini, read", 0.15, "million tokens", "openai.com/api/pricing")
WORDS_OUT = Price("gpt-4o-mini, written", 0.60, "million tokens", "openai.com/api/pricing")
EMBED = Price("Titan Embed Text v2", 0.02, "million tokens", "aws.amazon.com/bedrock/pricing")
RERANK = Price("Amazon Rerank", 1.00, "thousand questions", "aws.amazon.com/bedrock/pricing")
CHANGES = Price("S3 events", 1.00, "million", "aws.amazon.com/eventbridge/pricing")
PRICES = (
    *(REST, CALL, COMPUTE, EXPRESS, EXPRESS_TIME, READ, WRITE, QUEUE, LOGS, XRAY, OUT, WAF),
    *(WORDS_IN, WORDS_OUT, STANDARD, S3_READ, S3_WRITE, EMBED, RERANK, CHANGES),
)


@dataclass(frozen=True, slots=True)
class Assumed:
    """Assumptions that cannot be measured here; override them on the command line."""

    cold_share: float = 0.01
    """Of events that find no sandbox: they pay for its INIT, or with SnapStart for the restore."""
    hop_ms: float = 20.0
    """State machine's own time for each task, which Express bills and no emulation has."""
    store_ms: float = STORE_S * 1000
    """Network and store time a step that reads a store waits for; here stores are files."""
    model_s: float = MODEL_S
    """A remote model's answer; the function waits for it and is billed for it."""
    tokens_in: int = 1_500
    tokens_out: int = 150
    new_tokens: float = 0.05
    """Of requests whose token the authoriser's cache does not hold."""
    traces_in_batch: int = 10
    traced: float = 0.05
    """X-Ray's default share."""
    lambda_log_bytes: int = 700
    """START, END and REPORT lines of one event."""
    event_bytes: int = 500
    """One line of the state machine's history (level ALL, no execution data)."""
    kept_answers: float = 0.1
    """Of requests with a `cache_key`: one read, and one write of 8 KB when it was new."""


TASK_EVENTS, CHOICE_EVENTS, OTHER_EVENTS, CHOICES = 5, 2, 2, 6


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of request: its functions and front end."""

    title: str
    steps: tuple[str, ...]
    workflow: bool = True
    remote_model: bool = False


PROFILES = (
    Profile("search", SEARCH),
    Profile("answer, extractive", ANSWER),
    Profile("answer, remote model", ANSWER, remote_model=True),
    Profile("traverse", ("traverse",), workflow=False),
    Profile("check", ("check",), workflow=False),
)


def compute_usd(name: str, ms: float, init_ms: float, cold_share: float) -> float:
    """Cost of a million events: memory in GB x (ms rounded up + share x INIT) x list price."""
    seconds = (math.ceil(ms) + cold_share * init_ms) / 1000
    return MEMORY[name] / 1024 * seconds * COMPUTE.usd * MILLION


def express_usd(ms: float) -> float:
    """Cost of a million executions of `ms`, rounded up to 100 ms, in one chunk of 64 MB."""
    seconds = math.ceil(ms / 100) / 10
    return EXPRESS.usd + 64 / 1024 * seconds * EXPRESS_TIME.usd * MILLION


SNAPPED = environment("prod").snap_start


def restores_usd(steps: Sequence[str], cold_share: float) -> float:
    """Cost of the restores in a million requests: share x memory in GB x list price."""
    memory = sum(MEMORY[name] for name in steps if name in SNAPPED) / 1024
    return memory * cold_share * RESTORE.usd * MILLION


def lines_of(profile: Profile, report: Mapping[str, Any], assumed: Assumed) -> dict[str, float]:
    """USD for a million requests of this kind, per line of the bill."""
    rows = report["functions"]

    def took(name: str) -> float:
        waits = assumed.store_ms if name in READS_STORES else 0.0
        if name == "synthesize" and profile.remote_model:
            waits += assumed.model_s * 1000
        return float(rows[name]["warm_mean_ms"]) + waits

    def compute(name: str) -> float:
        init_ms = 0.0 if name in SNAPPED else rows[name]["init_ms"]
        return compute_usd(name, took(name), init_ms, assumed.cold_share)

    batches = 1 / assumed.traces_in_batch if profile.workflow else 0.0
    calls = len(profile.steps) + assumed.new_tokens + batches
    printed = calls * assumed.lambda_log_bytes
    lines = {"REST API": REST.usd}
    if profile.workflow:
        whole = sum(took(name) + assumed.hop_ms for name in profile.steps)
        lines["state machine, Express"] = express_usd(whole)
        tasks = TASK_EVENTS * len(profile.steps)
        printed += (tasks + CHOICE_EVENTS * CHOICES + OTHER_EVENTS) * assumed.event_bytes
        printed += report["whole"]["log_bytes"]
        # Each message is sent alone, fetched and deleted in batches.
        lines["trace queue"] = QUEUE.usd * (1 + 2 * batches)
        lines["DynamoDB"] = assumed.kept_answers * (READ.usd * 2 + WRITE.usd * 8)
    lines["functions, calls"] = CALL.usd * calls
    lines["functions, time"] = sum(compute(name) for name in profile.steps)
    if restores := restores_usd(profile.steps, assumed.cold_share):
        lines["SnapStart, restores"] = restores
    lines["authoriser and trace writer, time"] = assumed.new_tokens * compute("authorize")
    lines["authoriser and trace writer, time"] += batches * compute("record")
    lines["logs"] = LOGS.usd * printed * MILLION / GIGA
    lines["X-Ray"] = XRAY.usd * assumed.traced
    answered = report["whole"] if profile.workflow else rows[profile.steps[0]]
    lines["data out"] = OUT.usd * answered["response_bytes"] * MILLION / GIGA
    lines["WAF, where it is on"] = WAF.usd
    if profile.remote_model:
        words = assumed.tokens_in * WORDS_IN.usd + assumed.tokens_out * WORDS_OUT.usd
        lines["model, gpt-4o-mini"] = words
    return lines


def upload_usd(run: Mapping[str, Any]) -> dict[str, float]:
    """Cost of a million uploads of one document, as `benchmarks.uploads` measured a run."""
    times = run["cpu_ms"].items()
    return {
        "REST API": REST.usd,
        "state machine, Standard": STANDARD.usd * run["transitions"],
        "bucket": S3_READ.usd * run["reads"] + S3_WRITE.usd * run["writes"],
        "functions, calls": CALL.usd * run["calls"],
        "functions, time": sum(compute_usd(name, ms, 0.0, 0.0) for name, ms in times),
    }


def uploads_table(runs: Mapping[str, Mapping[str, Any]], hop_ms: float) -> str:
    """Return the bill of a million uploads per path, and the counts of one, as Markdown."""

    def seconds(run: Mapping[str, Any]) -> float:
        return float(sum(run["cpu_ms"].values())) / 1000

    def hourly(run: Mapping[str, Any]) -> float:
        return 3600 / (seconds(run) + run["transitions"] * hop_ms / 1000)

    bills = _columns("USD per million uploads", list(runs), [upload_usd(r) for r in runs.values()])
    rows = {
        "transitions": [str(run["transitions"]) for run in runs.values()],
        "calls of functions": [str(run["calls"]) for run in runs.values()],
        "processor seconds": [f"{seconds(run):.2f}" for run in runs.values()],
        "uploads an hour, at most": [f"{hourly(run):,.0f}" for run in runs.values()],
    }
    return bills + "".join(f"| {name} | {' | '.join(cells)} |\n" for name, cells in rows.items())


MOST_METRICS = 60
"""Custom metrics that functions and metric filters may write; tests/infra/test_telemetry.py."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Monthly billed resources of a synthesised environment."""

    alarm_metrics: int
    secrets: int
    rules: int
    endpoint_zones: int = 0


def index_usd(index: Index) -> dict[str, float]:
    """Monthly USD of a new domain per line."""
    nodes = index.data_nodes * NODES[index.instance_type]
    nodes += index.managers * NODES[index.manager_type] if index.managers else 0.0
    disks = index.data_nodes * index.volume_gib * DISK.usd
    return {"index, nodes": nodes * MONTH_H, "index, disks": disks}


SIZES = (
    *((100_000, 10), (500_000, 50), (1_000_000, 50)),
    *((10_000_000, 10), (100_000_000, 1)),
)
"""Chunks and questions per second of the sizing table."""
RATES = (10, 100, 1_000)
"""Questions per second for which the table of limits names what ends first."""
MOST_NODES = 200


def cheapest(chunks: int, rate: int) -> Index:
    """Return the cheapest domain in three zones, with managers, for chunks and a rate."""
    domains = []
    for kind in MEMORY_GIB:
        for nodes in range(3, MOST_NODES + 1, 3):
            index = replace(
                environment("prod").index, instance_type=kind, data_nodes=nodes, chunks=chunks
            )
            if fits(index, rate):
                domains.append(replace(index, volume_gib=disk_gib(gib_per_node(index))))
    return min(domains, key=lambda index: sum(index_usd(index).values()))


def sizing_table() -> str:
    """Return the cheapest domain of each of SIZES, with its graph, as Markdown."""
    titles = (
        *("chunks", "questions/s", "limit", "data nodes", "shards, copies"),
        *("data, disk, alarm GiB", "slower", "index USD", "graph GB, USD"),
    )
    rows = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for chunks, rate in SIZES:
        index = cheapest(chunks, rate)
        shards, replicas = layout(index.data_nodes, index.zones, chunks)
        alarm = index.volume_gib * FREE_SHARE
        rows.append(
            f"| {chunks:,} | {rate} | {questions_per_second(index):.3g} | "
            f"{index.data_nodes} {index.instance_type.removesuffix('.search')} | "
            f"{shards}, {replicas + 1} | {gib_per_node(index):.1f}, {index.volume_gib}, "
            f"{alarm:g} | {slower(chunks):.1f} | {sum(index_usd(index).values()):,.0f} | "
            f"{graph_gb(chunks):,}, {graph_gb(chunks) * GRAPH_GB_USD:,} |"
        )
    return "\n".join(rows) + "\n"


def limits_table() -> str:
    """Return what ends first in `prod` for each of RATES, as Markdown."""
    rows = ["| questions/s | what ends first, at questions/s |", "|---|---|"]
    for rate in RATES:
        over = [
            f"`{name}` {rate_limit:.0f}"
            for rate_limit, name in limits(environment("prod"))
            if rate_limit < rate
        ]
        rows.append(f"| {rate:,} | {', '.join(over) or 'nothing'} |")
    return "\n".join(rows) + "\n"


def idle_usd(ours: Environment, counts: Counts, machines: int = KEPT_MACHINES) -> dict[str, float]:
    """Monthly USD of an idle environment per line, without graph and NAT.

    `machines`: number of state machine versions with function versions of their own; the
    pruner keeps KEPT_MACHINES, so later deploys add nothing. The dashboard is free (first three).
    """
    lines = index_usd(ours.index) if ours.index.kind == "managed" else {}
    memory = sum(MEMORY[name] for name in ours.snap_start) / 1024
    lines["snapshots of functions"] = memory * SNAPSHOT.usd * MONTH_H * 3600 * machines
    lines["key"] = KEY.usd
    lines["secrets"] = counts.secrets * SECRET.usd
    lines["alarms"] = counts.alarm_metrics * ALARM.usd
    # Billed by the hour in which they are written: an idle month costs less.
    lines["custom metrics"] = MOST_METRICS * METRIC.usd
    if counts.endpoint_zones:
        lines["endpoint of Bedrock"] = counts.endpoint_zones * ENDPOINT.usd * MONTH_H
    if counts.rules:
        lines["firewall"] = ACL.usd + counts.rules * RULE.usd
    return lines


def counted(templates: Sequence[Mapping[str, Any]]) -> Counts:
    """Count resources in the templates."""
    resources = [r for body in templates for r in body["Resources"].values()]

    def of(kind: str) -> list[Mapping[str, Any]]:
        return [r["Properties"] for r in resources if r["Type"] == kind]

    metrics = 0
    for alarm in of("AWS::CloudWatch::Alarm"):
        # An expression over two metrics is billed as two alarm metrics.
        metrics += sum("MetricStat" in m for m in alarm.get("Metrics", ())) or 1
    rules = sum(len(acl["Rules"]) for acl in of("AWS::WAFv2::WebACL"))
    zones = sum(len(endpoint["SubnetIds"]) for endpoint in of("AWS::EC2::VPCEndpoint"))
    return Counts(metrics, len(of("AWS::SecretsManager::Secret")), rules, zones)


def idle_table(counts: Mapping[str, Counts]) -> str:
    """Return the fixed monthly bill, a column per environment, after one deploy and after ten."""
    bills = {
        (name, machines): idle_usd(environment(name), counts[name], machines)
        for name in counts
        for machines in (1, KEPT_MACHINES)
    }
    titles = [f"{name}, {'first deploy' if machines == 1 else 'tenth'}" for name, machines in bills]
    return _columns("USD a month, idle", titles, list(bills.values()))


def _columns(head: str, titles: Sequence[str], bills: Sequence[Mapping[str, float]]) -> str:
    """Return several bills and their totals as a Markdown table."""
    rows = [f"| {head} | " + " | ".join(titles) + " |", "|---" * (len(bills) + 1) + "|"]
    for name in dict.fromkeys(name for bill in bills for name in bill):
        cells = [f"{bill[name]:.2f}" if name in bill else "" for bill in bills]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    totals = [f"**{sum(bill.values()):.2f}**" for bill in bills]
    rows.append("| **total** | " + " | ".join(totals) + " |")
    return "\n".join(rows) + "\n"


def table(report: Mapping[str, Any], assumed: Assumed) -> str:
    """Return the bill per million requests, a column per kind of request, as Markdown."""
    bills = [lines_of(profile, report, assumed) for profile in PROFILES]
    return _columns("USD per million requests", [p.title for p in PROFILES], bills)


def prices() -> str:
    """Return the list prices as Markdown."""
    rows = ["| list price, us-east-1 | | page |", "|---|---|---|"]
    rows += [f"| {price.service} | {price.each} | {price.page} |" for price in (*PRICES, *FIXED)]
    rows += [f"| {name} | {usd} USD an hour | {SEARCH_PAGE} |" for name, usd in NODES.items()]
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print bill and prices: `python -m benchmarks.cloud_costs [--bundles FILE] ...`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--bundles", type=Path, default=MEASURED)
    parser.add_argument(
        "--templates", type=Path, default=ROOT / "cdk.out", help="output of `make synth`"
    )
    parser.add_argument("--sizes", action="store_true", help="print the sizing table and end")
    for name, default in {f: getattr(Assumed(), f) for f in Assumed.__slots__}.items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default)
    options = vars(parser.parse_args(arguments))
    if options.pop("sizes"):
        sys.stdout.write(f"{sizing_table()}\n{limits_table()}")
        return
    report = json.loads(options.pop("bundles").read_text(encoding="utf-8"))
    counts = {}
    for name in ENVIRONMENTS:
        paths = sorted((options["templates"] / name).glob("*.template.json"))
        if not paths:
            raise SystemExit(f"no templates of {name}: `make synth ENV={name}` first")
        counts[name] = counted([json.loads(path.read_text(encoding="utf-8")) for path in paths])
    del options["templates"]
    assumed = Assumed(**options)
    bill = table(report, assumed)
    uploads = uploads_table(json.loads(UPLOADS.read_text(encoding="utf-8")), assumed.hop_ms)
    sys.stdout.write(f"{idle_table(counts)}\n{bill}\n{uploads}\n{prices()}")


if __name__ == "__main__":
    main()
