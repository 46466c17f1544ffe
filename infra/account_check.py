"""`make account-check URL=... ENV=...`."""

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from infra.settings import environment
from infra.smoke import QUESTION, Service, expect, service_of

REPORTS = """filter type = "platform.report"
| stats count(*) as calls, count(record.metrics.initDurationMs) as starts,
  pct(record.metrics.initDurationMs, 50) as start_ms,
  count(record.metrics.restoreDurationMs) as restores,
  pct(record.metrics.restoreDurationMs, 50) as restore_ms,
  pct(record.metrics.durationMs, 95) as p95_ms by @log"""
COLUMNS = ("calls", "starts", "start_ms", "restores", "restore_ms", "p95_ms")
# Until the logs of the last question can be queried.
INGESTED_S = 60.0


def ask(service: Service, namespace: str, count: int, each_s: float) -> list[float]:
    """Ask QUESTION `count` times, at most one per `each_s`; return the seconds taken, sorted.

    Raise `Wrong` without an answer of status 200.
    """
    took = []
    for _ in range(count):
        begun = time.monotonic()
        answer = service.post("/v1/search", query=QUESTION, namespace=namespace)
        expect(answer.status == 200, answer, "no answer")
        took.append(time.monotonic() - begun)
        time.sleep(max(0.0, each_s - took[-1]))
    return sorted(took)


def reported(logs: Any, groups: list[str], since: float) -> list[Mapping[str, str]]:
    """Return the fields of REPORTS per log group, since epoch seconds.

    Raise SystemExit if the query fails.
    """
    begun = logs.start_query(
        logGroupNames=groups, startTime=int(since), endTime=int(time.time()), queryString=REPORTS
    )
    while (found := logs.get_query_results(queryId=begun["queryId"]))["status"] != "Complete":
        if found["status"] not in ("Scheduled", "Running"):
            raise SystemExit(f"the query of the logs ended as {found['status']}")
        time.sleep(1)
    return [{field["field"]: field["value"] for field in row} for row in found["results"]]


def table(rows: Iterable[Mapping[str, str]]) -> str:
    """Return `@log` (KeyError without it) and COLUMNS of the rows as a Markdown table, sorted.

    Missing columns are empty.
    """
    lines = [f"| function | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in sorted(rows, key=lambda row: row["@log"]):
        cells = [row.get(column, "") for column in COLUMNS]
        lines.append(f"| {row['@log']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(  # noqa: PLR0913 - options of a command
    url: Annotated[str, typer.Option()],
    env: Annotated[str, typer.Option()],
    questions: int = 200,
    each_s: float = 1.0,
    namespace: str = "default",
    token: Annotated[str, typer.Option(envvar="SMOKE_TOKEN")] = "",
    key: Annotated[str, typer.Option(envvar="SMOKE_KEY")] = "",
) -> None:
    """Ask QUESTIONS, one every EACH_S seconds, then print starts and restores as Markdown.

    SystemExit without log groups.
    """
    import boto3

    region, since = environment(env).region, time.time()
    took = ask(service_of(url, env, token, key), namespace, questions, each_s)
    sys.stdout.write(f"p50 {took[len(took) // 2]:.2f} s, longest {took[-1]:.2f} s\n")
    time.sleep(INGESTED_S)
    logs = boto3.client("logs", region_name=region)
    prefix = f"docstokg-{env}-Functions"
    pages = logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix)
    groups = [group["logGroupName"] for page in pages for group in page["logGroups"]]
    if not groups:
        raise SystemExit(f"no log group begins with {prefix}")
    sys.stdout.write(f"{table(reported(logs, groups, since))}\n")


if __name__ == "__main__":
    typer.run(main)
