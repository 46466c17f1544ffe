"""What reaches CloudWatch and X-Ray, read as they would read it: lines of EMF, datagrams."""

import itertools
import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cloud_costs import MOST_METRICS
from docstokg.adapters.aws.powertools import DIMENSIONS, EmfSink
from docstokg.adapters.aws.xray import DAEMON, TRACE, XRay
from docstokg.contracts.envelope import Caller
from docstokg.errors import Unavailable
from docstokg.observability import METRICS, Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_functions.validate.handler import build
from tests.envelopes import event


def published(printed: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[float]]:
    """(metric, dimensions) -> values, as CloudWatch would read the lines."""
    series: dict[Any, list[float]] = {}
    for line in printed.splitlines():
        document = json.loads(line)
        for directive in document["_aws"]["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                dimensions = tuple(sorted((name, document[name]) for name in names))
                for metric in directive["Metrics"]:
                    series[metric["Name"], dimensions] = list(document[metric["Name"]])
    return series


ENV = ("environment", "test")


def test_paid_series_are_metrics_and_the_rest_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    telemetry = Telemetry(EmfSink("test"))
    for hit in ("true", "false", "false"):
        telemetry.count("rag_kg_hits_total", hit=hit)
    telemetry.count("rag_step_latency_seconds", 0.25, step="embed")
    telemetry.count("rag_step_latency_seconds", 2.0, step="language_model")
    labels = {"namespace": "ns-7", "synthesis": "true", "mode": "graph", "provider": "openai"}
    telemetry.count("rag_requests_total", route="answer", status="200", **labels)
    telemetry.flush()
    printed = capsys.readouterr().out
    series = published(printed)
    hits = {d: sum(v) for (name, d), v in series.items() if name == "rag_kg_hits_total"}
    assert hits == {(ENV,): 3, (ENV, ("hit", "true")): 1}
    steps = {d: v for (name, d), v in series.items() if name == "rag_step_latency_seconds"}
    assert steps == {(ENV, ("step", "embed")): [0.25]}
    assert series["rag_requests_total", (ENV,)] == [1]
    (line,) = (json.loads(text) for text in printed.splitlines() if "rag_requests_total" in text)
    assert labels.items() <= line.items()


@pytest.mark.parametrize("reveal", [False, True])
def test_functions_log_like_a_laptop_plus_the_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reveal: bool
) -> None:
    """Written by Powertools' Logger; the formatter redacts."""
    fields = {"request_id": "r-1", "query": "a secret question", "snippets": ["x"], "n": 2}
    lines = []
    for environment in (None, "test"):
        monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793")
        settings = Settings(environment=environment, rag_log_snippets=reveal)
        telemetry = Wiring(settings).telemetry
        telemetry.log("DEBUG", "not shown", **fields)
        telemetry.log("WARNING", "shown", **fields)
        (text,) = capsys.readouterr().err.splitlines()
        lines.append(json.loads(text))
    local, deployed = lines
    assert deployed.pop("xray_trace_id") == "1-5759e988-bd862e3fe1be46a994272793"
    assert abs(local.pop("time_ms") - deployed.pop("time_ms")) < 60_000
    assert local == deployed
    assert (deployed["level"], deployed["event"], deployed["n"]) == ("WARNING", "shown", 2)
    assert ("secret" in deployed["query"]) is reveal


def test_all_that_can_be_written_stays_few(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is paid by the month; metric filters count three more in logs."""
    sink = EmfSink("test")
    for name, (_, labels, _) in METRICS.items():
        values = [DIMENSIONS.get(label, ("any", "other")) for label in labels]
        for chosen in itertools.product(*values):
            sink.record(name, 1.0, dict(zip(labels, chosen, strict=True)))
    sink.flush()
    count = len(published(capsys.readouterr().out))
    assert count == 51, "each costs 0.30 USD a month: change this number"
    assert count + 3 <= MOST_METRICS, "docs/costs.md has the price of this maximum"


@pytest.fixture
def daemon() -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Return the address of X-Ray's daemon, and a function that returns its segments."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(0.5)

        def heard() -> list[dict[str, Any]]:
            parts = []
            while True:
                try:
                    header, _, body = listening.recv(65_536).partition(b"\n")
                except TimeoutError:
                    return parts
                assert json.loads(header) == {"format": "json", "version": 1}
                parts.append(json.loads(body))

        yield f"127.0.0.1:{listening.getsockname()[1]}", heard


def test_each_external_call_is_part_of_the_trace(
    daemon: tuple[str, Callable[[], list[dict[str, Any]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, heard = daemon
    trace = "Root=1-5f84c7a5-1;Parent=53995c3f42cd8ad8;Sampled="
    monkeypatch.setenv(DAEMON, address)
    monkeypatch.setenv(TRACE, f"{trace}1")
    xray = XRay()
    telemetry = Telemetry(segments=xray.record)
    with telemetry.span("index.search", request_id="r"):
        pass
    with pytest.raises(Unavailable), telemetry.span("graph.slice"):
        raise Unavailable("PRIVATE words")
    monkeypatch.setenv(TRACE, f"{trace}0")
    with telemetry.span("not.sampled"):
        pass
    xray.close()
    parts = heard()
    assert [(part["name"], part["fault"]) for part in parts] == [
        ("index.search", False),
        ("graph.slice", True),
    ]
    for part in parts:
        assert part["trace_id"] == "1-5f84c7a5-1"
        assert part["parent_id"] == "53995c3f42cd8ad8"
        assert part["type"] == "subsegment"
        assert part["start_time"] <= part["end_time"]
        assert len(bytes.fromhex(part["id"])) == 8
    assert "PRIVATE" not in json.dumps(parts)
    assert len({part["id"] for part in parts}) == 2


def test_refused_requests_leave_a_line_and_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Call the function: its log has error codes and no text of the question."""
    wiring = Wiring(Settings(environment="test"))
    handler = build(wiring)
    reader = Caller(sub="o'neil", namespaces=("default",))
    for body in (b'{"query": "PRIVATE question?", "namespace": "elsewhere"}', b'{"PRIVATE": 1}'):
        handler({"envelope": event(body, "search", reader)}, None)
    wiring.telemetry.flush()
    printed = capsys.readouterr()
    audit, refused = (json.loads(line) for line in printed.err.splitlines())
    assert (audit["event"], audit["status"], audit["code"]) == (
        "audit",
        403,
        "namespace_not_granted",
    )
    assert (refused["event"], refused["status"]) == ("refused", 400)
    assert "missing" in refused["errors"]
    assert "PRIVATE" not in printed.err
    assert "neil" not in printed.err
    series = published(printed.out)
    assert sum(series["rag_refused_requests_total", (ENV,)]) == 2
    assert sum(series["rag_requests_total", (ENV,)]) == 2


def test_an_answer_line_has_caller_cost_and_model(
    small_store: Path, client_for: Callable[..., Any]
) -> None:
    log: list[str] = []
    client = client_for(small_store, log)
    body = {
        "query": "What does SCN1A encode?", "synthesis": {"enabled": True, "model": "extractive"},
        "budget": {"max_tokens_gen": 128}, "verbosity": "graph",
        "kg_expansion": {"route": True, "seeds": ["scn1a"]},
    }  # fmt: skip
    answered = client.post("/v1/answer", json=body).json()
    (line,) = (record for record in map(json.loads, log) if record["event"] == "request")
    diagnostics = answered["diagnostics"]
    assert re.fullmatch("[0-9a-f]{16}", line["caller"])
    assert line["namespace"] == "default"
    assert (line["provider"], line["model"], line["synthesis"]) == (
        "extractive",
        "extractive",
        "true",
    )
    assert line["mode"] == "graph"
    assert line["budget_used"] == diagnostics["budget_used"]
    assert line["budget_limits"]["max_tokens_gen"] == 128
    assert line["kg"] == diagnostics["kg_stats"]
    timings = diagnostics["timings_ms"]
    for step in ("routing", "hydration", "graph_view"):
        assert 0 < timings[step] < timings["total"], step
    text = client.get("/metrics").text
    (row,) = re.findall(r"^rag_requests_total\{(.*)\} 1\.0$", text, re.M)
    labels = dict(re.findall(r'(\w+)="(\w+)"', row))
    assert labels == {name: str(line[name]) for name in METRICS["rag_requests_total"][1]}


def moved_by(client: Any) -> float:
    (count,) = re.findall(r"^rag_kg_boost_impact_sum (\S+)", client.get("/metrics").text, re.M)
    return float(count)


def test_boost_impact_is_counted_only_with_boost(
    small_store: Path, client_for: Callable[..., Any]
) -> None:
    """Without it nothing is counted, whatever else the graph changes."""
    body = {"query": "sodium channel neurons fever children, seizure?", "top_k": 4}
    for value, moved in ((0.0, False), (1.0, True)):
        client = client_for(small_store, kg_boost_value=value)
        assert client.post("/v1/search", json=body).json()["diagnostics"]["kg_stats"]
        assert (moved_by(client) > 0) is moved


def test_what_finds_nothing_writes_nothing_of_finding(
    small_store: Path, client_for: Callable[..., Any]
) -> None:
    """The alarm `unanswered` waits for this metric: it may not come before something is loaded."""
    client, pattern = client_for(small_store), r"^rag_found_requests_total (\S+)"
    for namespace, count in (("never-loaded", "0.0"), ("default", "1.0")):
        body = {"query": "What is this about?", "namespace": namespace}
        assert client.post("/v1/search", json=body).status_code == 200
        assert re.findall(pattern, client.get("/metrics").text, re.M) == [count]
