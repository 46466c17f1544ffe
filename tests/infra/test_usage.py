"""Usage per namespace: one saved query, shown on the dashboard and written as CSV."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from docstokg_local.cli import index_jobs
from docstokg_local.cli.exit_codes import run
from tests.infra.conftest import Template, stubbed
from tests.infra.test_bucket_jobs import BUCKET, Deployment, deployment
from tests.ingest_runner import run_ingest, stage_functions

__all__ = ["deployment"]

GROUPS = ("Respond", "Retrieve", "Traverse", "Check", "IngestClose")


def saved_query(template: Template) -> dict[str, Any]:
    (saved,) = (
        query
        for query in template.all("AWS::Logs::QueryDefinition").values()
        if query["Name"] == f"docstokg-{template.name}/usage"
    )
    return saved


def test_the_dashboard_shows_the_saved_query(template: Template) -> None:
    saved = saved_query(template)
    groups = [name["Ref"] for name in saved["LogGroupNames"]]
    assert [re.sub(r"^Functions|Logs\w+$", "", group) for group in groups] == list(GROUPS)
    parts = template.only("AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
    board = "".join(part if isinstance(part, str) else f"<{part.get('Ref')}>" for part in parts)
    (shown,) = (
        widget["properties"]["query"]
        for widget in json.loads(board)["widgets"]
        if widget["properties"].get("title") == "Usage by namespace"
    )
    assert shown.endswith(saved["QueryString"])
    assert re.findall(r"SOURCE '<(\w+)>'", shown) == groups


def test_the_query_reads_fields_that_are_logged(
    dev: Template, small_store: Path, client_for: Callable[..., Any], deployment: Deployment
) -> None:
    """Of an answer, and of a load of two documents."""
    log: list[str] = []
    body = {"query": "What does SCN1A encode?", "synthesis": {"model": "extractive"}}
    assert client_for(small_store, log).post("/v1/answer", json=body).status_code == 200
    objects = deployment.wiring.object_store()
    for name in ("a", "b"):
        objects.put(f"sources/notes/{name}.md", f"# {name}\n\nWeir {name} was rebuilt.".encode())
    load = {
        "run_id": "r1", "namespace": "notes", "bucket": BUCKET, "prefix": "sources/notes/",
        "sync": False, "max_removed": 0, "remove": [],
    }  # fmt: skip
    execution = run_ingest(stage_functions(deployment.wiring), objects, load)
    assert execution.status == "SUCCEEDED", execution
    answered, loaded = (
        line for line in map(json.loads, [*log, *deployment.lines]) if line["event"] == "request"
    )
    assert (loaded["route"], loaded["namespace"], loaded["loaded"]) == ("load", "notes", 2)
    query = saved_query(dev)["QueryString"]
    assert 'filter event = "request"' in query
    for line, absent in ((answered, {"loaded"}), (loaded, {"budget_used.tokens_gen", "cost_usd"})):
        grouped = {"namespace", "route"}
        for field in {*re.findall(r"sum\(([\w.]+)\)", query), *grouped} - absent:
            value: Any = line
            for name in field.split("."):
                value = value[name]
            assert isinstance(value, str if field in grouped else int | float), field


def test_columns_are_those_of_the_query(dev: Template) -> None:
    query = saved_query(dev)["QueryString"]
    columns = [*re.findall(r" by ([\w, ]+)", query)[0].split(", "), *re.findall(r"as (\w+)", query)]
    assert set(columns) == set(index_jobs.USAGE)


def test_usage_is_printed_as_csv(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    monkeypatch.setattr(index_jobs, "POLL_S", 0.0)
    saved = {"name": "docstokg-prod/usage", "queryString": "stats 1", "logGroupNames": ["a", "b"]}
    counted = {"day": "2026-11-01 00:00:00.000", "namespace": "legal", "requests": "7"}
    answered = counted | {"route": "answer", "tokens": "1200", "model_usd": "0.25"}
    rows = [answered, counted | {"route": "load", "documents": "3"}]
    with stubbed("logs") as logs:
        monkeypatch.setattr(boto3, "client", lambda service: logs)
        logs.stub.add_response(
            "describe_query_definitions",
            {"queryDefinitions": [saved]},
            {"queryDefinitionNamePrefix": "docstokg-prod/usage"},
        )
        period = {"startTime": 1_000_000 - 2 * 86_400, "endTime": 1_000_000}
        asked = {"logGroupNames": ["a", "b"], "queryString": "stats 1", "limit": 10_000}
        logs.stub.add_response("start_query", {"queryId": "q"}, asked | period)
        table = [[{"field": k, "value": v} for k, v in row.items()] for row in rows]
        for state, results in (("Running", []), ("Complete", table)):
            reply = {"status": state, "results": results}
            logs.stub.add_response("get_query_results", reply, {"queryId": "q"})
        assert run(index_jobs.app, ["usage", "prod", "--days", "2"]) == 0
    answer, load = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert answer == answered | {"documents": "0"}
    assert (load["documents"], load["requests"], load["model_usd"]) == ("3", "7", "0")


@pytest.mark.parametrize(("state", "code"), [("Failed", 1), ("absent", 2)])
def test_a_missing_or_failed_query_is_an_error(
    monkeypatch: pytest.MonkeyPatch, state: str, code: int
) -> None:
    saved = {"queryString": "stats 1", "logGroupNames": ["a"]}
    with stubbed("logs") as logs:
        monkeypatch.setattr(boto3, "client", lambda service: logs)
        definitions = {"queryDefinitions": [] if state == "absent" else [saved]}
        logs.stub.add_response("describe_query_definitions", definitions)
        if state != "absent":
            logs.stub.add_response("start_query", {"queryId": "q"})
            logs.stub.add_response("get_query_results", {"status": state, "results": []})
        assert run(index_jobs.app, ["usage", "prod"]) == code
