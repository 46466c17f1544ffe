"""What reaches CloudWatch and X-Ray, read as they would read it: lines of EMF, datagrams."""

import base64
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from docstokg.adapters.aws.emf_metrics import EmfSink
from docstokg.adapters.aws.xray import DAEMON, TRACE, XRay
from docstokg.contracts.envelope import Caller, Envelope
from docstokg.errors import Unavailable
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_functions.validate.handler import build


def published(printed: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[float]]:
    """(metric, dimensions) -> values, as CloudWatch would read the lines."""
    found: dict[Any, list[float]] = {}
    for line in printed.splitlines():
        document = json.loads(line)
        for directive in document["_aws"]["CloudWatchMetrics"]:
            for names in directive["Dimensions"]:
                dimensions = tuple(sorted((name, document[name]) for name in names))
                for metric in directive["Metrics"]:
                    found[metric["Name"], dimensions] = list(document[metric["Name"]])
    return found


ENV = ("environment", "test")


def test_a_hit_is_told_from_a_miss_and_a_step_from_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    telemetry = Telemetry(EmfSink("test"))
    for hit in ("true", "false", "false"):
        telemetry.count("rag_kg_hits_total", hit=hit)
    telemetry.count("rag_step_latency_seconds", 0.25, step="embed")
    telemetry.count("rag_step_latency_seconds", 2.0, step="language_model")
    telemetry.count("cypher_explain_reject_total", template="slice")
    telemetry.flush()
    found = published(capsys.readouterr().out)
    hits = {d: sum(v) for (name, d), v in found.items() if name == "rag_kg_hits_total"}
    assert hits == {(ENV,): 3, (ENV, ("hit", "true")): 1, (ENV, ("hit", "false")): 2}
    steps = {d: v for (name, d), v in found.items() if name == "rag_step_latency_seconds"}
    assert steps == {
        (ENV, ("step", "embed")): [0.25],
        (ENV, ("step", "language_model")): [2.0],
    }
    assert ("cypher_explain_reject_total", (ENV, ("template", "slice"))) in found


@pytest.fixture
def daemon() -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """Where X-Ray's daemon listens, and what it has heard."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(0.5)

        def heard() -> list[dict[str, Any]]:
            found = []
            while True:
                try:
                    header, _, body = listening.recv(65_536).partition(b"\n")
                except TimeoutError:
                    return found
                assert json.loads(header) == {"format": "json", "version": 1}
                found.append(json.loads(body))

        yield f"127.0.0.1:{listening.getsockname()[1]}", heard


def test_each_external_call_is_a_part_of_the_trace(
    daemon: tuple[str, Callable[[], list[dict[str, Any]]]],
) -> None:
    address, heard = daemon
    environ = {DAEMON: address, TRACE: "Root=1-5f84c7a5-1;Parent=53995c3f42cd8ad8;Sampled=1"}
    xray = XRay(environ)
    telemetry = Telemetry(segments=xray)
    with telemetry.span("index.search", request_id="r"):
        pass
    with pytest.raises(Unavailable), telemetry.span("graph.slice"):
        raise Unavailable("PRIVATE words")
    environ[TRACE] = environ[TRACE].replace("Sampled=1", "Sampled=0")
    with telemetry.span("not.sampled"):
        pass
    xray.close()
    found = heard()
    assert [(part["name"], part["fault"]) for part in found] == [
        ("index.search", False),
        ("graph.slice", True),
    ]
    for part in found:
        assert part["trace_id"] == "1-5f84c7a5-1"
        assert part["parent_id"] == "53995c3f42cd8ad8"
        assert part["type"] == "subsegment"
        assert part["start_time"] <= part["end_time"]
        assert len(bytes.fromhex(part["id"])) == 8
    assert "PRIVATE" not in json.dumps(found)
    assert len({part["id"] for part in found}) == 2


def test_a_refused_request_leaves_a_line_and_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    """Through the function itself: what is wrong is told by codes, never by what was asked."""
    wiring = Wiring(Settings(environment="test"))
    handler = build(wiring)
    reader = Caller(sub="o'neil", namespaces=("default",))
    for body in (b'{"query": "PRIVATE question?", "namespace": "elsewhere"}', b'{"PRIVATE": 1}'):
        envelope = Envelope(
            route="search", request_id="r", body_b64=base64.b64encode(body).decode(), caller=reader
        )
        handler({"envelope": envelope.model_dump(mode="json")}, None)
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
    found = published(printed.out)
    assert found["rag_refused_requests_total", (("code", "namespace_not_granted"), ENV)] == [1]
    assert sum(found["rag_requests_total", (ENV,)]) == 2
