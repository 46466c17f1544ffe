"""Each failure degrades only its part, and the log has its cause."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.server.application import application
from docstokg_local.server.prometheus import PrometheusSink
from tests.faults.failure_cases import (
    CLOSED,
    Case,
    Embedded,
    Refusing,
    failure_cases,
    remote_embedder,
    remote_reranker,
)
from tests.model_server import ModelServer, serving

EXPECTED = json.loads(Path(__file__).with_name("failures.json").read_text("utf-8"))
"""Of each case: the status, the reasons named to the caller, the events in the log."""
NO_CAUSE = {"abstention"}
"""No failure: the model says that the sources do not hold the answer."""
AWS = {
    "ENDPOINT_URL": CLOSED,
    "DEFAULT_REGION": "eu-west-1",
    "ACCESS_KEY_ID": "nobody",
    "SECRET_ACCESS_KEY": "nothing",
}
STARTED = {"not_warm", "warm"}
"""Of the start of a server over a locked store, not of the request; it may come at any time."""


@contextmanager
def served(
    case: Case, store: Embedded, models: dict[str, Any], log: list[str], folder: Path
) -> Iterator[tuple[TestClient, list[Refusing]]]:
    with ExitStack() as stack:
        values = {
            name: value(store, folder) if callable(value) else value
            for name, value in case.settings.items()
        }
        address = CLOSED
        if case.model is not None:
            address = stack.enter_context(serving(ModelServer(**case.model))).url
            values |= {"llm_base_url": address, "llm_api_key": "key"}
        if case.remote_reranker:
            values |= remote_reranker(CLOSED)
        if case.remote_embedder:
            values |= remote_embedder(address, folder)
        settings, sink = Settings(**{**store.settings(), **values}), PrometheusSink()
        base_ports = {} if {"embed_provider", "sparse"} & values.keys() else models
        telemetry = Telemetry(sink, log.append)
        plain = Wiring(settings, telemetry, base_ports)
        failing_ports = {name: wrap(getattr(plain, name)()) for name, wrap in case.ports.items()}
        wiring = Wiring(settings, telemetry, {**base_ports, **failing_ports})
        stack.callback(wiring.close)
        stack.callback(plain.close)
        client = TestClient(application(wiring, sink), raise_server_exceptions=False)
        yield stack.enter_context(client), list(failing_ports.values())


def outcome_of(
    case: Case, store: Embedded, models: dict[str, Any], folder: Path
) -> tuple[int, Any, list[dict[str, Any]]]:
    """Apply the case's fault and ask once; return status, body and log lines."""
    log: list[str] = []
    with ExitStack() as stack:
        if case.broken is not None and case.early:
            stack.enter_context(case.broken(store))
        client, wrapped = stack.enter_context(served(case, store, models, log, folder))
        if case.broken is not None and not case.early:
            client.post("/v1/search", json={"query": "warm up", "budget": {"timeout_s": 20}})
            stack.enter_context(case.broken(store))
        for port in wrapped:
            port.armed = True
        log.clear()
        content = case.body if isinstance(case.body, str) else json.dumps(case.body)
        headers = {"Content-Type": "application/json"}
        answer = client.post(f"/v1/{case.route}", content=content, headers=headers)
    return answer.status_code, answer.json(), [json.loads(line) for line in log]


@pytest.mark.parametrize("case", failure_cases(), ids=lambda case: case.name)
def test_the_log_names_the_cause(
    case: Case,
    copied_store: Path,
    models: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A call that is given up goes on in its thread: not to the network, also where keys are found.
    for name, value in AWS.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    if isinstance(case.body, dict) and len(case.body.get("query", "")) > 3:
        case = replace(case, body={**case.body, "query": "What are seizures?"})
    (tmp_path / "own").mkdir()
    status, body, log = outcome_of(case, Embedded(copied_store), models, tmp_path / "own")
    expected = EXPECTED[case.name]
    assert status == expected["status"]
    parts = [body.get("diagnostics"), body.get("explain")]
    reasons = {reason for part in parts for reason in (part or {}).get("degraded_reasons") or ()}
    assert status != 200 or reasons >= set(expected["reasons"]), reasons
    lines = [
        line
        for line in log
        if line["event"] not in STARTED and (line["event"] != "request" or line.get("doubts"))
    ]
    assert bool(lines) is (case.name not in NO_CAUSE), log
    events = set(expected["events"])
    # On a busy machine other steps may run out of time as well, and say so.
    assert all(line["event"] in events or line.get("kind") == "Timeout" for line in lines), lines
    assert not events - STARTED or {line["event"] for line in lines} & events
    for line in lines:
        assert any(line.get(key) for key in ("error", "errors", "cause", "doubts")), line
