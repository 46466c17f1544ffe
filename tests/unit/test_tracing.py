"""`docstokg trace`: log lines of a request and its first fault."""

import json
import time
from typing import Any

import boto3
import pytest
from moto import mock_aws

from docstokg_local.cli.tracing import aws_log_lines, lines_of, request_report
from tests.signatures import be_a_role


def line(event: str, at: int, level: str = "INFO", request: str = "r-1", **fields: Any) -> str:
    leading = {"level": level, "event": event, "time_ms": at, "request_id": request}
    return json.dumps(leading | fields)


SEARCH_FAILED = line(
    "search_failed", 20, "WARNING", kind="Timeout", error="OpenSearch did not answer in 3.000 s"
)
ANSWERED = line("request", 50, status=200, doubts=["low_coverage"], degraded_reasons=["x"])


def test_the_last_line_names_the_first_failure() -> None:
    later = line("rerank_failed", 30, "WARNING", kind="Unavailable")
    texts = [("Respond", ANSWERED), ("Ground", later), ("Retrieve", SEARCH_FAILED)]
    *lines, first = request_report(lines_of([*texts, ("Respond", "no JSON")], "r-1"))
    assert [text.split()[3] for text in lines] == ["search_failed", "rerank_failed", "request"]
    assert lines[2].startswith("    30 ms  Respond")
    assert first == "first: Retrieve: search_failed: OpenSearch did not answer in 3.000 s"


@pytest.mark.parametrize(
    ("logged", "last"),
    [
        (ANSWERED, "first: the answer is doubted: low_coverage"),
        (line("request", 5, degraded_reasons=["kg_timeout"]), "first: degraded: kg_timeout"),
        (line("request", 5), "nothing went wrong in any logged step"),
    ],
)
def test_without_a_failure_doubts_then_degradations_are_named(logged: str, last: str) -> None:
    assert [*request_report(lines_of([("Respond", logged)], "r-1"))][-1] == last


@mock_aws
def test_log_lines_come_from_functions_of_their_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    be_a_role(monkeypatch)
    logs, stacks = boto3.client("logs"), boto3.client("cloudformation")
    logged = {
        "FunctionsRetrieveLogs1A2B": [SEARCH_FAILED, line("a", 1, request="r-2")],
        "FunctionsIngestReadLogs1A2B": [],
        "FunctionsRespondLogs1A2B": [ANSWERED],
        "WorkflowLogs1A2B": [ANSWERED],
    }
    for stack in ("docstokg-dev", "docstokg-prod"):
        resources = {
            name: {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": f"{stack}/{name}"}}
            for name in logged
        }
        stacks.create_stack(StackName=stack, TemplateBody=json.dumps({"Resources": resources}))
    for name, texts in logged.items():
        group = f"docstokg-dev/{name}"
        logs.create_log_stream(logGroupName=group, logStreamName="1")
        events = [{"timestamp": int(time.time() * 1000), "message": text} for text in texts]
        if events:
            logs.put_log_events(logGroupName=group, logStreamName="1", logEvents=events)
    lines = lines_of(aws_log_lines(boto3.client, "dev", "r-1"), "r-1")
    assert [row["function"] for row in lines] == ["Retrieve", "Respond"]
    assert lines_of(aws_log_lines(boto3.client, "prod", "r-1"), "r-1") == []
