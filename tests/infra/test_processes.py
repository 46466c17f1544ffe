"""The deployed folders, run by the real runtime client, behind the templates of the gateway."""

import base64
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts.envelope import Caller
from docstokg_functions.authorize.authorize import encode_caller
from docstokg_local.engine.engine import Execution, StateMachine
from infra import templates
from infra.specs import FUNCTIONS
from tests.builders import eventually
from tests.infra.conftest import ROOT
from tests.infra.gateway import Answer, render_execution, render_request, render_response
from tests.runtime_api import Fleet, Folders, InitFailed, Sandbox

pytestmark = pytest.mark.flaky(reruns=1, reruns_delay=5)

ASL = ROOT / "statemachine" / "answer.asl.json"
STEPS = ("validate", "retrieve", "expand", "ground", "traverse", "synthesize", "respond")
ALIAS = "arn:aws:states:eu-central-1:111122223333:stateMachine:docstokg-test:live"
EVERYTHING = Caller(sub="o'neil", namespaces=("*",), groups=("*",))
MARK = "zyxwvut"
"""A word of every question asked here, and of nothing else."""


class Deployment:
    """Gateway templates, the state machine file, one process per function."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        table = {f"{name.title()}Function": self._step(name) for name in STEPS}
        self.machine = StateMachine.from_file(ASL, table)

    def _step(self, name: str) -> Any:
        return lambda payload, _: self.invoke(name, payload)

    def invoke(self, name: str, event: Any) -> Any:
        """Send one event to one function."""
        return self.fleet.invoke(name, event)

    def route(self, name: str, body: Any, caller: Caller = EVERYTHING) -> Answer:
        """Answer a route that one function serves, through its templates; None = no body."""
        template = templates.request_function(name, templates.caller("jwt"))
        context = {"requestId": "req-9", "authorizer": {"caller": encode_caller(caller)}}
        event = render_request(template, "" if body is None else json.dumps(body), context)
        return render_response(templates.response("function"), self.invoke(name, event))

    def post(self, route: str, body: str, caller: Caller = EVERYTHING) -> Answer:
        """Answer a POST to /v1/answer or /v1/search as the deployed gateway would."""
        template = templates.request_workflow(route, ALIAS, templates.caller("jwt"))
        context = {"requestId": "req-7", "authorizer": {"caller": encode_caller(caller)}}
        request = render_request(template, body, context)
        return render_execution(self.machine.execute(json.loads(request["input"])))


@pytest.fixture(scope="module")
def variables(small_store: Path, cache_dir: Path) -> dict[str, str]:
    url = f"sqlite:///{small_store}"
    return {
        "DOCSTOKG_INDEX_URL": url,
        "DOCSTOKG_GRAPH_URL": url,
        "DOCSTOKG_CACHE_DIR": str(cache_dir),
        "DOCSTOKG_ENVIRONMENT": "test",
        "DOCSTOKG_LOG_LEVEL": "DEBUG",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


@pytest.fixture(scope="module")
def deployment(
    bundles: Path, variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    timeouts = {spec.name: float(spec.timeout_s) for spec in FUNCTIONS}
    fleet = Fleet(
        Folders(bundles / "host"),
        tmp_path_factory.mktemp("logs"),
        variables=dict.fromkeys(timeouts, variables),
        timeouts=timeouts,
    )
    # Sandboxes start in their INIT phase, which Lambda counts apart from the first event.
    with ThreadPoolExecutor(2) as starting:
        list(starting.map(fleet.sandbox, STEPS))
    yield Deployment(fleet)
    fleet.close()


def question(text: str = f"What are seizures {MARK}?", **fields: Any) -> str:
    return json.dumps({"query": text, "namespace": "default", **fields}, ensure_ascii=False)


def test_hanging_sandboxes_cost_their_step_and_are_replaced(deployment: Deployment) -> None:
    sandbox = deployment.fleet.sandbox("expand")
    os.kill(sandbox.pid, signal.SIGSTOP)
    answer = deployment.post("search", question())
    assert answer.status == 200
    assert answer.json["diagnostics"]["degraded_reasons"] == ["kg_timeout"]
    assert answer.json["citations"]
    assert eventually(lambda: deployment.fleet.sandbox("expand").pid != sandbox.pid)
    again = deployment.post("search", question())
    assert again.json["diagnostics"]["degraded_reasons"] == []


@pytest.mark.parametrize(
    ("step", "status"), [("validate", 500), ("retrieve", 200), ("ground", 503), ("respond", 500)]
)
def test_a_dying_sandbox_is_one_failure(deployment: Deployment, step: str, status: int) -> None:
    sandbox = deployment.fleet.sandbox(step)
    os.kill(sandbox.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as asking:
        answered = asking.submit(deployment.post, "search", question())
        while not sandbox.busy:
            time.sleep(0.01)
        os.kill(sandbox.pid, signal.SIGKILL)
        answer = answered.result(timeout=30)
    assert answer.status == status, answer.body
    if status == 200:
        assert "retrieval_unavailable" in answer.json["diagnostics"]["degraded_reasons"]
    else:
        assert answer.json["status"] == status
    # INIT counts against the step's limit, and a busy machine takes its time for it.
    deployment.fleet.sandbox(step)
    assert deployment.post("search", question()).status == 200


def test_error_messages_contain_no_input(
    deployment: Deployment,
) -> None:
    with pytest.raises(Exception, match="validation error") as caught:
        deployment.fleet.invoke("ground", {"scope": {"namespace": "ok"}, "plan": {"x": "secret"}})
    assert type(caught.value).__name__ == "ValidationError"
    # The runtime prints what a handler raises, so not even that may quote its input.
    assert "secret" not in str(caught.value)
    failed = Execution("FAILED", None, "ValidationError", str(caught.value))
    assert "secret" not in render_execution(failed).body


def test_two_hundred_questions_leave_no_word_in_logs(
    deployment: Deployment, small_store: Path
) -> None:
    """No line of any process at DEBUG contains a question, a draft or a passage."""
    snippets = set()
    for number in range(200):
        text = f"seizures {MARK} {number} in infants?"
        # A caller of its own, so that no budget per caller ends the walks.
        caller = Caller(sub=f"caller-{number}", namespaces=("*",), groups=("*",))
        match number % 5:
            case 0 | 1:
                answer = deployment.post("search", question(text), caller)
            case 2:
                synthesis: dict[str, Any] = {"synthesis": {"enabled": True, "model": "extractive"}}
                body = question(text, **synthesis, budget={"max_tokens_gen": 256}, verbosity="full")
                answer = deployment.post("answer", body, caller)
            case 3:
                answer = deployment.post("answer", question(text, verbosity="graph"), caller)
            case _:
                seeds = {"seed_ids": ["HP:0001250"], "query": text}
                assert deployment.route("traverse", seeds, caller).status == 200
                answer = deployment.route("check", {"text": f"It is about {text}"}, caller)
        assert answer.status == 200, answer.body
        snippets |= {citation["snippet"] for citation in answer.json.get("citations", ())}
    logs = deployment.fleet.log_text()
    assert len(logs.splitlines()) > 400
    assert MARK not in logs
    assert snippets
    for snippet in snippets:
        for words in (snippet, snippet[:40], snippet[-40:]):
            assert words not in logs
            assert json.dumps(words)[1:-1] not in logs
    assert base64.b64encode(MARK.encode()).decode()[:8] not in logs


def test_a_handler_with_wrong_settings_fails_in_init(bundles: Path, tmp_path: Path) -> None:
    with pytest.raises(InitFailed, match="DOCSTOKG_GRAPH_URL"):
        Sandbox(
            "record",
            Folders(bundles / "host"),
            tmp_path / "record.log",
            variables={"DOCSTOKG_GRAPH_URL": "nonsense://"},
            timeout_s=5,
        )


def test_unwritable_traces_go_back_to_the_queue(bundles: Path, tmp_path: Path) -> None:
    sandbox = Sandbox(
        "record",
        Folders(bundles / "host"),
        tmp_path / "record.log",
        variables={"DOCSTOKG_GRAPH_URL": "bolt://127.0.0.1:9"},
        timeout_s=30,
    )
    trace = {"request_id": "r", "session": "s", "namespace": "n", "query_hash": "h"}
    records = [
        {"messageId": "good", "body": json.dumps(trace | {"created_ms": 1})},
        {"messageId": "bad", "body": "{}"},
    ]
    try:
        answer = sandbox.invoke({"Records": records})
    finally:
        sandbox.close()
    assert {f["itemIdentifier"] for f in answer["batchItemFailures"]} == {"good", "bad"}
