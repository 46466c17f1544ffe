"""`docstokg trace`: from a request's id to what went wrong with it first."""

import json
import time
from typing import Any

import boto3
import pytest
from moto import mock_aws

from docstokg_local.cli.tracing import in_aws, lines_of, told


def line(event: str, at: int, level: str = "INFO", request: str = "r-1", **more: Any) -> str:
    fields = {"level": level, "event": event, "time_ms": at, "request_id": request, **more}
    return json.dumps(fields)


SEARCH_FAILED = line(
    "search_failed", 20, "WARNING", kind="Timeout", error="OpenSearch did not answer in 3.000 s"
)
ANSWERED = line("request", 50, status=200, doubts=["low_coverage"], degraded_reasons=["x"])


def test_the_first_thing_that_failed_is_named_last() -> None:
    later = line("rerank_failed", 30, "WARNING", kind="Unavailable")
    texts = [("Respond", ANSWERED), ("Ground", later), ("Retrieve", SEARCH_FAILED)]
    *lines, first = told(lines_of([*texts, ("Respond", "no JSON")], "r-1"))
    assert [text.split()[3] for text in lines] == ["search_failed", "rerank_failed", "request"]
    assert lines[2].startswith("    30 ms  Respond")
    assert first == "first: Retrieve: search_failed: OpenSearch did not answer in 3.000 s"


def test_without_a_failure_the_doubt_and_then_what_was_missing_is_named() -> None:
    assert [*told(lines_of([("Respond", ANSWERED)], "r-1"))][-1].endswith("doubted: low_coverage")
    degraded = line("request", 5, degraded_reasons=["kg_timeout"])
    assert [*told(lines_of([("Respond", degraded)], "r-1"))][-1] == "first: degraded: kg_timeout"
    good = line("request", 5)
    assert "nothing went wrong" in [*told(lines_of([("Respond", good)], "r-1"))][-1]


@mock_aws
def test_lines_of_a_deployment_come_from_every_function_and_no_other_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    logs, stacks = boto3.client("logs"), boto3.client("cloudformation")
    said = {
        "FunctionsRetrieveLogs1A2B": [SEARCH_FAILED, line("a", 1, request="r-2")],
        "FunctionsIngestReadLogs1A2B": [],
        "FunctionsRespondLogs1A2B": [ANSWERED],
        "WorkflowLogs1A2B": [ANSWERED],
    }
    for stack in ("docstokg-dev", "docstokg-prod"):
        made = {
            name: {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": f"{stack}/{name}"}}
            for name in said
        }
        stacks.create_stack(StackName=stack, TemplateBody=json.dumps({"Resources": made}))
    for name, texts in said.items():
        group = f"docstokg-dev/{name}"
        logs.create_log_stream(logGroupName=group, logStreamName="1")
        events = [{"timestamp": int(time.time() * 1000), "message": text} for text in texts]
        if events:
            logs.put_log_events(logGroupName=group, logStreamName="1", logEvents=events)
    found = lines_of(in_aws(boto3.client, "dev", "r-1"), "r-1")
    assert [one["function"] for one in found] == ["Retrieve", "Respond"]
    assert lines_of(in_aws(boto3.client, "prod", "r-1"), "r-1") == []
