import json

import pytest

from docstokg.contracts.envelope import Caller
from docstokg.contracts.state import Plan, Validated
from docstokg.settings import Settings
from docstokg_functions.validate.validate import validate
from tests.envelopes import EVERYBODY, envelope

NOW = 1_800_000_000_000.0


def run(body, route="answer", caller=EVERYBODY, **settings) -> Validated:
    rules = Settings(**settings)
    return validate(envelope(body, route, caller), rules=rules, started_at="", now_ms=NOW)


def plan_of(*args, **settings) -> Plan:
    plan = run(*args, **settings).plan
    assert plan is not None
    return plan


def problem(validated: Validated) -> dict:
    assert validated.reply is not None
    return json.loads(validated.reply.body)


def test_defaults_make_a_plan() -> None:
    plan = plan_of({"query": "  what is it?  "})
    assert (plan.query, plan.namespace) == ("what is it?", "default")
    assert plan.deadline_ms - plan.started_ms == 12_000
    assert plan.retrieval.channels == {"bm25": 80, "splade": 80, "dense": 60, "facts": 20}
    assert (plan.groups, plan.synthesis) == (None, None)


def test_every_error_comes_at_once_with_its_path() -> None:
    body = {
        "query": "x", "top_k": 0, "namespace": "Upper", "surprise": 1,
        "budget": {"max_chunks": "9", "timeout_s": 61, "max_tokens_gen": 0},
        "filter": {"k": [{"a": 1}]},
        "kg_expansion": {"hops": 4}, "synthesis": {"enabled": True, "model": "nobody"},
        "verbosity": "loud", "providers": {"embedding": "x"},
    }  # fmt: skip
    reply = problem(run(body))
    assert reply["status"] == 400
    assert reply["code"] == "invalid_request"
    assert {error["path"] for error in reply["errors"]} == {
        "$.query",
        "$.top_k",
        "$.namespace",
        "$.surprise",
        "$.budget.max_chunks",
        "$.budget.timeout_s",
        "$.filter.k[0]",
        "$.kg_expansion.hops",
        "$.synthesis.model",
        "$.budget.max_tokens_gen",
        "$.verbosity",
        "$.providers.embedding",
    }


@pytest.mark.parametrize(
    ("synthesis", "budget", "tokens"),
    [
        ({"enabled": True}, {}, 300),
        ({"enabled": True}, {"max_tokens_gen": None}, 300),
        ({"enabled": True}, {"max_tokens_gen": 40}, 40),
        ({}, {}, 0),
    ],
)
def test_an_unlimited_answer_has_300_tokens(synthesis, budget, tokens) -> None:
    plan = plan_of({"query": "abc", "synthesis": synthesis, "budget": budget})
    assert plan.budget_limits.max_tokens_gen == tokens
    assert plan.synthesis is None or plan.synthesis.max_tokens == tokens


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"null", b"[]", b'"x"', b'{"query": NaN}', b'{"query": "abc\\u0000"}',
        b'{"query": "abc\\ud800"}', b"\xff\xfe", b'{"query":"abc","top_k":1e999}',
        b'{"query":"abc","top_k":true}', b'{"query":"abc","top_k":5.0}', b"[" * 60_000,
    ],
)  # fmt: skip
def test_no_bytes_get_past(raw: bytes) -> None:
    reply = problem(run(raw))
    assert reply["status"] == 400
    assert reply["errors"]


@pytest.mark.parametrize("query", ["年假", "C# ", "hi", "é", "  é!", "🎉"])
def test_a_question_has_at_least_three_bytes(query: str) -> None:
    done = run({"query": query})
    if len(query.strip().encode()) >= 3:
        assert done.plan is not None
    else:
        (error,) = problem(done)["errors"]
        assert (error["code"], error["path"]) == ("string_too_short", "$.query")
        assert error["message"].startswith("must be at least 3 letters long (3 bytes in UTF-8);")


def test_search_refuses_what_only_answers_have() -> None:
    reply = problem(
        run({"query": "abc", "synthesis": {}, "budget": {"max_tokens_gen": 5}}, route="search")
    )
    assert {error["path"] for error in reply["errors"]} == {
        "$.synthesis",
        "$.budget.max_tokens_gen",
    }
    plan = plan_of({"query": "abc"}, route="search")
    assert (plan.top_k, plan.snippet_chars) == (8, 200)


def test_namespace_must_be_granted() -> None:
    caller = Caller(sub="a", namespaces=("mine",), groups=("g",))
    assert problem(run({"query": "abc", "namespace": "other"}, caller=caller))["status"] == 403
    assert plan_of({"query": "abc", "namespace": "mine"}, caller=caller).groups == ("g",)
    several = {"query": "abc", "namespaces": ["mine", "other", "mine"]}
    assert "'other'" in problem(run(several, caller=caller))["detail"]
    caller = caller.model_copy(update={"namespaces": ("mine", "other")})
    scope = run(several, caller=caller).scope
    assert scope is not None
    assert (scope.namespaces, scope.groups) == (("mine", "other"), ("g",))
    assert problem(run({"query": "abc", "namespaces": []}))["errors"][0]["path"] == "$.namespaces"


def test_a_large_body_is_413() -> None:
    assert problem(run(b'{"query":"' + b"a" * 70_000 + b'"}'))["status"] == 413


def test_the_ceiling_wins_and_says_so() -> None:
    plan = plan_of({"query": "abc", "budget": {"timeout_s": 60}}, max_timeout_s=5)
    assert plan.budget_limits.timeout_s == 5
    assert any("ceiling" in warning for warning in plan.warnings)


def test_cache_keys_depend_on_caller_and_rights() -> None:
    def key(body=None, route="answer", **caller_fields) -> tuple[str, str]:
        caller = Caller(
            **({"sub": "a", "namespaces": ("*",), "groups": ("g", "h")} | caller_fields)
        )
        plan = run(body or {"query": "abc", "cache_key": "k"}, route, caller).plan
        assert plan is not None
        assert plan.cache is not None
        return plan.cache.key, plan.cache.request_hash

    assert key() == key({"cache_key": "k", "query": " abc", "top_k": 10}, groups=("h", "g", "g"))
    places = [
        key(),
        key(sub="b"),
        key(groups=("g",)),
        key(groups=()),
        key(groups=("*",)),
        key({"query": "abc", "cache_key": "l"}),
    ]
    assert len({place for place, _ in places}) == 6
    # The searched namespaces, also of a request that names none, are added by `recall`.
    assert key() == key({"query": "abc", "cache_key": "k", "namespace": "other"})
    for fields in ({"query": "abcd"}, {"history": [SEIZURES]}):
        other = key({"query": "abc", "cache_key": "k", **fields})
        assert other[0] == key()[0]
        assert other[1] != key()[1]
    assert key(route="search")[1] != key()[1]
    plan = plan_of({"query": "abc"})
    assert plan.cache is None


@pytest.mark.parametrize("on", [True, False])
def test_a_switched_off_provider_neither_embeds_nor_reranks(on: bool) -> None:
    """The switch of one provider is no other one's."""
    chosen = {"embed_provider": "jina", "rerank_provider": "jina", "provider_jina_enabled": on}
    plan = plan_of({"query": "what is it?"}, **chosen)
    assert (plan.retrieval.embed, plan.rerank) == (on, "yes" if on else "lost")
    other = plan_of({"query": "what is it?"}, **chosen | {"embed_provider": "openai"})
    assert other.retrieval.embed


SEIZURES = {"role": "user", "content": "What is Angelman syndrome?"}


@pytest.mark.parametrize("route", ["answer", "search"])
def test_follow_ups_keep_their_understood_and_sent_form(route: str) -> None:
    plan = plan_of({"query": "why?", "history": [SEIZURES]}, route)
    assert (plan.query, plan.sent) == ("why? (Angelman syndrome)", "why?")
    alone = plan_of({"query": "why?"}, route)
    assert (alone.query, alone.sent) == ("why?", None)


@pytest.mark.parametrize(
    ("history", "path", "code"),
    [
        ([SEIZURES] * 21, "$.history", "too_long"),
        ([{"role": "user", "content": "x" * 16385}] * 2, "$.history", "history_too_large"),
        ([SEIZURES, {"role": "system", "content": "x"}], "$.history[1].role", "literal_error"),
        ([{"role": "user"}], "$.history[0].content", "missing"),
        ([{"role": "user", "content": "\x00"}], "$.history[0].content", "nul_character"),
        ("What is it?", "$.history", "tuple_type"),
    ],
)
def test_a_wrong_history_is_refused_with_its_path(history, path: str, code: str) -> None:
    errors = problem(run({"query": "why?", "history": history}))["errors"]
    assert [(error["path"], error["code"]) for error in errors] == [(path, code)]


@pytest.mark.parametrize(
    ("granted", "fallback", "is_open"),
    [
        (("*",), "default", True),
        (("alpha", "beta"), "", True),
        (("alpha", "default"), "default", True),
        (("alpha",), "alpha", False),
        ((), None, False),
    ],
)
def test_the_index_chooses_among_several_granted_namespaces(
    granted: tuple[str, ...], fallback: str | None, is_open: bool
) -> None:
    validated = run({"query": "abc"}, caller=Caller(sub="s", namespaces=granted))
    if fallback is None:
        assert validated.reply is not None
        assert validated.reply.statusCode == 403
        return
    assert validated.plan is not None
    assert validated.scope is not None
    assert validated.plan.namespace == validated.scope.namespace == fallback
    assert validated.plan.choices == (granted if is_open else ())
