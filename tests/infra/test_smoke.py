"""The smoke test passes for a working service and names a failing part: a real server, moto."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.smoke import (
    FERRIES,
    Service,
    Wrong,
    alarms_reach_the_topic,
    answers,
    model_answers,
    service_of,
    smoke,
)
from tests.infra.conftest import ROOT, stubbed
from tests.loopback import Loopback

pytestmark = [pytest.mark.xdist_group("smoke"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[dict[str, str]]:
    """`docstokg serve` over a store of its own; the variables `docstokg load` needs for it."""
    folder = tmp_path_factory.mktemp("smoke")
    store = f"sqlite:///{folder / 'store.sqlite'}"
    variables = {
        "DOCSTOKG_INDEX_URL": store,
        "DOCSTOKG_GRAPH_URL": store,
        "DOCSTOKG_CACHE_DIR": str(cache_dir),
    }
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = [str(Path(sys.executable).parent / "docstokg"), "serve", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            program, cwd=ROOT, env=os.environ | variables, stdout=log, stderr=log
        )
    try:
        yield variables | {"URL": _address(folder / "log", process)}
    finally:
        process.terminate()
        process.wait(30)


def _address(log: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        if match := re.search(r"http://127\.0\.0\.1:\d+", log.read_text("utf-8")):
            with contextlib.suppress(Wrong):
                Service(match[0]).request("GET", "/openapi.json")
                return match[0]
        time.sleep(0.1)
    raise AssertionError(log.read_text("utf-8"))


def test_a_working_service_passes_every_check(served: dict[str, str]) -> None:
    lines: list[str] = []
    smoke(Service(served["URL"]), lines.append, model="extractive")
    assert lines[0].startswith("up")
    assert "answers with citations, not degraded" in lines
    assert {"every route answers", "extractive answers"} <= set(lines)
    assert lines[-1] == "deleted, and found no more"


@pytest.mark.parametrize(("degraded", "right"), [(0, True), (3, True), (4, False)])
def test_few_degraded_answers_pass(degraded: int, right: bool) -> None:
    """At a share of 10 %, 66 questions are asked: 3 of them are under the alarm's 5 %."""
    paths: list[str] = []

    def reply(path: str, body: bytes) -> tuple[int, object]:
        paths.append(path)
        reasons = ["kg_timeout"] if len(paths) <= degraded else []
        return 200, {
            "query": json.loads(body)["query"],
            "citations": [{"doc_id": FERRIES}],
            "diagnostics": {"degraded_reasons": reasons},
        }

    with contextlib.closing(Loopback(reply)) as server:
        if right:
            answers(Service(server.url), "x", 10)
        else:
            with pytest.raises(Wrong, match="4 of 66 degraded: kg_timeout"):
                answers(Service(server.url), "x", 10)
    assert len(paths) == 66


@pytest.mark.parametrize("reason", ["llm_unavailable", "kg_timeout"])
def test_a_broken_provider_fails_the_test(reason: str) -> None:
    body = {"diagnostics": {"degraded_reasons": [reason]}}
    with contextlib.closing(Loopback(lambda *_: (200, body))) as server:
        if reason.startswith("llm_"):
            with pytest.raises(Wrong, match="gpt did not answer"):
                model_answers(Service(server.url), "x", "gpt")
        else:
            model_answers(Service(server.url), "x", "gpt")


@pytest.mark.parametrize(
    ("summary", "right"),
    [
        ("Successfully executed action arn:aws:sns:eu-central-1:111122223333:topic", True),
        ("Failed to execute action arn:aws:sns:...: not authorized to perform SNS:Publish", False),
    ],
)
def test_an_alarm_counts_when_its_history_shows_notification(summary: str, right: bool) -> None:
    with stubbed("cloudwatch") as client:
        client.stub.add_response("set_alarm_state", {})
        client.stub.add_response("set_alarm_state", {})
        history = {"AlarmHistoryItems": [{"HistorySummary": summary}]}
        client.stub.add_response("describe_alarm_history", history)
        if right:
            alarms_reach_the_topic("dev", client)
        else:
            with pytest.raises(Wrong, match="SNS:Publish"):
                alarms_reach_the_topic("dev", client)


def test_a_token_is_minted_by_client_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(Loopback(lambda *_: (200, {"access_token": "fresh"}))) as issuer:
        monkeypatch.setenv("SMOKE_TOKEN_URL", f"{issuer.url}/token")
        monkeypatch.setenv("SMOKE_CLIENT_ID", "smoke")
        monkeypatch.setenv("SMOKE_CLIENT_SECRET", "s")
        signed = service_of("https://api", "staging").sign("GET", "https://api", b"")
        assert signed == {"Authorization": "Bearer fresh"}
        ((path, body),) = issuer.asked
        assert (path, body) == ("/token", b"grant_type=client_credentials")
        issuer.reply = lambda *_: (401, {})
        with pytest.raises(Wrong, match="401 to client credentials"):
            service_of("https://api", "staging")
        monkeypatch.delenv("SMOKE_CLIENT_SECRET")
        with pytest.raises(Wrong, match="also needs SMOKE_CLIENT_ID and SMOKE_CLIENT_SECRET"):
            service_of("https://api", "staging")
