"""The smoke test passes for a working service and names a failing part: a real server, moto."""

import contextlib
import json
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
from tests.e2e.test_serving import Serving
from tests.infra.conftest import stubbed
from tests.loopback import Loopback

pytestmark = [pytest.mark.xdist_group("smoke"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[str]:
    """`docstokg serve` over a store of its own."""
    server = Serving(tmp_path_factory.mktemp("smoke") / "store.sqlite", cache_dir)
    yield server.url
    server.stop()


def test_a_working_service_passes_every_check(url: str) -> None:
    lines: list[str] = []
    smoke(Service(url), lines.append, model="extractive")
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

    wrong = pytest.raises(Wrong, match="4 of 66 degraded: kg_timeout")
    with (
        contextlib.closing(Loopback(reply)) as server,
        contextlib.nullcontext() if right else wrong,
    ):
        answers(Service(server.url), "x", 10)
    assert len(paths) == 66


@pytest.mark.parametrize("reason", ["llm_unavailable", "kg_timeout"])
def test_a_broken_provider_fails_the_test(reason: str) -> None:
    body = {"diagnostics": {"degraded_reasons": [reason]}}
    right, wrong = contextlib.nullcontext(), pytest.raises(Wrong, match="gpt did not answer")
    outcome = wrong if reason.startswith("llm_") else right
    with contextlib.closing(Loopback(lambda *_: (200, body))) as server, outcome:
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
        wrong = pytest.raises(Wrong, match="SNS:Publish")
        with contextlib.nullcontext() if right else wrong:
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
