"""Expressions read once mean what sfnx makes of them each time; the file decides every turn."""

import base64
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonata
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sfnx import testing as sfnx

from docstokg.errors import NothingToCite, Timeout
from docstokg.wiring import Wiring
from docstokg_local.engine.engine import StateMachine
from docstokg_local.engine.expressions import Expression
from docstokg_local.engine.shortcuts import shortcut
from docstokg_local.engine.workflow import DEFINITION, STEPS

ASL = json.loads(DEFINITION.read_text("utf-8"))
NAMES = ("cache", "degraded", "reply", "graph")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=12,
)


def expressions(field: Any) -> Iterator[str]:
    if isinstance(field, dict):
        for member in field.values():
            yield from expressions(member)
    elif isinstance(field, list):
        for item in field:
            yield from expressions(item)
    elif (code := sfnx.expression(field)) is not None:
        yield code


OURS = sorted({code for code in expressions(ASL["States"]) if "$millis" not in code})


def outcome(evaluate: Callable[[], Any]) -> Any:
    try:
        return evaluate()
    except sfnx.Failure as failure:
        return failure.error


@pytest.mark.parametrize("path", ["$a", "$a.cache", "$a.cache.reply", "$states.input.graph"])
@given(value=JSON)
def test_a_plain_path_gives_what_the_evaluator_gives(path: str, value: Any) -> None:
    values = {"a": value, "states": {"input": value}}
    expected = outcome(lambda: sfnx.evaluate(path, {"a": value}, {"input": value}))
    assert outcome(lambda: Expression(path)(values)) == expected


@pytest.mark.parametrize("code", OURS)
@given(plan=JSON, degraded=st.lists(st.sampled_from(NAMES), max_size=3), value=JSON)
def test_every_expression_of_the_file_means_the_same(
    code: str, plan: Any, degraded: list[str], value: Any
) -> None:
    variables = {"plan": plan, "degraded": degraded, "graph": None, "request_id": "r", "scope": {}}
    payload = {"degraded": degraded, "graph": value, "reply": value, "cache": value}
    context = {"Execution": {"StartTime": "2026-01-01T00:00:00.000Z"}}
    states = {"input": value, "result": {"Payload": payload}, "context": context}
    expected = outcome(lambda: sfnx.evaluate(code, variables, states))
    found = outcome(lambda: Expression(code)({**variables, "states": states}))
    assert found == expected


FORMS = [
    "$a.cache.%.reply",
    "$a.cache[0].reply",
    "$a.*.reply",
    "$a.`cache`.reply",
    "[$a.cache, $a.cache.reply]",
    "$exists($a.cache.reply) and $a.graph = null",
    "$a.cache.($.reply)",
    "$a.cache.reply & $string($a)",
]


@pytest.mark.parametrize("code", FORMS)
@given(value=JSON)
def test_what_an_expression_is_not_given_it_does_not_read(code: str, value: Any) -> None:
    expected = outcome(lambda: sfnx.evaluate(code, {"a": value}, {}))
    assert outcome(lambda: Expression(code)({"a": value, "states": {}})) == expected


def test_an_expression_is_given_the_paths_it_names_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    real = sfnx.nulls
    monkeypatch.setattr(sfnx, "nulls", lambda value: [seen.append(value), real(value)][1])
    bulk = {"degraded": ["a"], "pool": list(range(1000))}
    values = {"degraded": [], "states": {"result": {"Payload": bulk}, "input": bulk}}
    Expression("$append($degraded, $states.result.Payload.degraded)[0]")(values)
    assert {"result": {"Payload": {"degraded": ["a"]}}} in seen
    assert not any("pool" in json.dumps(value) for value in seen)


SHORT = [
    "[$append($a, $b.cache)]",
    "[$append($a.cache, ['late', 'gone'])]",
    "[$a, $b, 'late']",
    "$merge([$a, $b.cache, { 'reply': $b.reply, 'graph': [$b.graph], 'cache': null }])",
    "{ 'reply': [$a], 'cache': $b.reply.cache }",
    "$exists($a.cache) and $a.cache != null",
    "$a.cache = $b and $b.cache != 'a'",
    "$exists($a.reply.graph)",
    "'text' = $a",
]
PLAIN = st.recursive(
    st.none() | st.text("ab", max_size=2) | st.lists(st.text("ab", max_size=2), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("code", SHORT)
@given(a=JSON | PLAIN, b=JSON | PLAIN)
def test_an_expression_without_the_evaluator_means_the_same(code: str, a: Any, b: Any) -> None:
    assert shortcut(code) is not None
    expected = outcome(lambda: sfnx.evaluate(code, {"a": a, "b": b}, {}))
    assert outcome(lambda: Expression(code)({"a": a, "b": b, "states": {}})) == expected


@pytest.mark.parametrize(
    "code",
    [
        *("$a[0]", "$append($a)", "$merge($a)", "[$a", "$a = $b = $c", "$sum([$a])", "", "$a and"),
        *("{ $a: 'b' }", "{ 'a': 1 }", "$a in $b", "$a.`b`", "'it\\'s'", "$merge([$a]) ~> $keys"),
        *("{ 'a': $a, 'a': $b }", "[$a] 'b'", "$exists($a, $b)", "$not($a)", "true"),
    ],
)
def test_an_expression_of_anything_else_is_left_to_the_evaluator(code: str) -> None:
    assert shortcut(code) is None


def test_nothing_is_parsed_at_the_second_question(monkeypatch: pytest.MonkeyPatch) -> None:
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {
            "FunctionName": "${F}",
            "Payload": "{% $merge([$states.input, {'b': [$append($states.input.a, [2])]}]) %}",
        },
        "Output": "{% $states.result.Payload %}",
        "End": True,
    }
    definition = {"QueryLanguage": "JSONata", "StartAt": "T", "States": {"T": task}}
    machine = StateMachine(definition, {"F": lambda payload, context: payload})
    first = machine.execute({"a": [1]})
    assert first.output == {"a": [1], "b": [1, 2]}
    monkeypatch.setattr(jsonata.Jsonata, "__init__", lambda *_: pytest.fail("parsed again"))
    assert machine.execute({"a": [1]}).output == first.output


Ask = Callable[[dict[str, Any]], tuple[tuple[str, ...], dict[str, Any]]]


@pytest.fixture
def handlers(
    small_store: Path, settings_for: Callable[..., Any], models: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    wiring = Wiring(settings_for(small_store), made=models)
    yield {name: module.build(wiring) for name, module in STEPS.items()}
    wiring.close()


@pytest.fixture
def ask(handlers: dict[str, Any]) -> Ask:
    body = json.dumps({"query": "Engine gene causes Dravet syndrome?", "top_k": 5})
    envelope = {
        "route": "answer",
        "request_id": "r",
        "caller": {"sub": "s", "namespaces": ["*"], "groups": ["*"]},
        "body_b64": base64.b64encode(body.encode()).decode(),
    }

    def asked(definition: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
        done = StateMachine(definition, handlers).execute(envelope)
        return done.states, json.loads(done.output["body"])

    return asked


def test_a_choice_changed_in_the_file_changes_the_answer(ask: Ask) -> None:
    states, whole = ask(ASL)
    assert "Expand" in states
    assert any(citation["kg_evidence"] for citation in whole["citations"])

    changed = copy.deepcopy(ASL)
    changed["States"]["Expand?"]["Choices"][0]["Condition"] = "{% $not($plan.expansion.enabled) %}"
    states, without = ask(changed)
    assert "Expand" not in states
    assert without["citations"]
    assert not any(citation.get("kg_evidence") for citation in without["citations"])

    refusing = copy.deepcopy(ASL)
    refusing["States"]["Refused?"]["Choices"][0] = {"Condition": "{% true %}", "Next": "Crashed"}
    assert ask(refusing)[1]["code"] == "internal_error"


def test_a_usual_question_needs_no_evaluator(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Expression, "_evaluated", lambda self, _: pytest.fail(self._code))
    states, body = ask(ASL)
    assert body["citations"]
    assert states[-1] == "Respond"


@pytest.mark.parametrize(
    ("error", "reasons"),
    [(Timeout("late"), " Reasons: deadline_exceeded."), (NothingToCite("gone"), "")],
)
def test_a_deadline_that_passes_is_told_from_a_broken_index(
    error: Exception, reasons: str, ask: Ask, handlers: dict[str, Any]
) -> None:
    def fail(event: dict[str, Any], context: object) -> dict[str, Any]:
        raise error

    handlers["GroundFunction"] = fail
    _, body = ask(ASL)
    assert (body["status"], body["code"]) == (503, "nothing_to_cite")
    assert body["detail"].endswith(f"read.{reasons}")


@pytest.mark.parametrize(("given", "threads"), [(None, "1"), ("3", "3")])
def test_the_linear_algebra_of_a_question_stays_in_its_thread(
    given: str | None, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With two threads a question's sparse weights cost six times the processor time."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    code = (
        "import docstokg.domain.vectors, numpy, os; print(os.environ['OPENBLAS_NUM_THREADS'])\n"
        "import docstokg_functions.retrieve.handler"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == threads
