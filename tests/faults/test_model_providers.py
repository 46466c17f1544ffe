"""Every provider at once, against servers that check each call; and the caller's messages."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from docstokg.adapters.aws.credentials import RoleKeys
from docstokg.adapters.http.chat import HttpChat
from docstokg.adapters.language_models import LanguageModels
from docstokg.adapters.litellm import LiteLlm
from docstokg.contracts.language_models import EXTRACTIVE, ModelAccess, facts_table
from docstokg.domain.answer import notices
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, NotConfigured, QuotaExceeded, Refused, Unavailable
from docstokg.ports import LanguageModel, Opinion, Pair
from docstokg.settings import MODELS, Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.doctor import examine
from tests.builders import answer_request, body_of, ran
from tests.onnx_verifiers import write_verifier
from tests.providers import ANTHROPIC_KEY, GATEWAY_KEY, OPENAI_KEY, Providers, serving
from tests.signatures import KEY, REGION, SECRET, be_a_role

SAID = [{"role": "system", "content": "Cite."}, {"role": "user", "content": "What is it?"}]
QUESTION = "What are seizures?"
NOVA = "bedrock/eu.amazon.nova-lite-v1:0"
BY_PROVIDER = {
    "openai": "gpt-4o-mini", "anthropic": "claude-haiku-5-5", "bedrock": NOVA, "gateway": "qwen2.5",
}  # fmt: skip


@pytest.fixture
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    """The role of this process, as Lambda gives it."""
    for name in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    be_a_role(monkeypatch)


@pytest.fixture(scope="module")
def server() -> Iterator[Providers]:
    with serving() as state:
        yield state


@pytest.fixture(autouse=True)
def unused(server: Providers) -> None:
    server.asked.clear()
    server.problems.clear()
    server.refuse, server.answer = {}, "It is so [1]."


def configured(server: Providers) -> dict[str, Any]:
    """Every provider's settings at once."""
    return {
        "llm_base_url": server.at("gateway"),
        "llm_api_key": GATEWAY_KEY,
        "provider_urls": tuple(
            f"{provider}={server.at(provider)}" for provider in ("openai", "anthropic", "bedrock")
        ),
        "openai_api_key": OPENAI_KEY,
        "anthropic_api_key": ANTHROPIC_KEY,
    }


def models_of(server: Providers) -> LanguageModel:
    return Wiring(Settings(**configured(server))).language_model()


def complete(model: str, models: LanguageModel) -> Any:
    return models.complete(
        SAID, model=model, temperature=0.0, max_tokens=50, deadline=Deadline.after(60)
    )


@pytest.mark.parametrize(
    ("model", "provider", "name"),
    [
        ("gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("openai/ft:gpt-4.1-mini:acme", "openai", "ft:gpt-4.1-mini:acme"),
        ("claude-3-haiku", "anthropic", "claude-3-haiku-20240307"),
        ("claude-haiku-5-5", "anthropic", "claude-haiku-5-5"),
        ("anthropic/claude-sonnet-5-5", "anthropic", "claude-sonnet-5-5"),
        (NOVA, "bedrock", "eu.amazon.nova-lite-v1:0"),
        (
            "bedrock/arn:aws:bedrock:eu-central-1:111122223333:inference-profile/mine",
            "bedrock",
            "arn:aws:bedrock:eu-central-1:111122223333:inference-profile/mine",
        ),
        ("qwen2.5:1.5b", "gateway", "qwen2.5:1.5b"),
        ("gateway/gpt-4o", "gateway", "gpt-4o"),
    ],
)
def test_each_model_is_asked_of_its_own_provider(
    role: None, server: Providers, model: str, provider: str, name: str
) -> None:
    answer = complete(model, models_of(server))
    assert (answer.text, answer.tokens_in, answer.tokens_out) == ("It is so [1].", 120, 30)
    assert answer.model == model
    assert server.problems == []
    assert [
        (called_provider, called_model) for called_provider, called_model, _ in server.asked
    ] == [(provider, name)]


def test_later_calls_leave_out_a_refused_temperature(server: Providers) -> None:
    models = models_of(server)
    assert [complete("gpt-6-luna", models).text for _ in range(2)] == ["It is so [1]."] * 2
    assert server.problems == ["openai: unsupported parameter"]
    assert [set(body) for _, _, body in server.asked] == [
        {"model", "messages", "max_completion_tokens"}
    ] * 2


def test_a_lone_address_takes_every_unprefixed_name(server: Providers) -> None:
    access = ModelAccess(base_url=server.at("gateway"), api_key=GATEWAY_KEY)
    assert {access.route(model).provider for model in MODELS} == {"gateway"}
    assert access.route("claude-3-haiku").name == "claude-3-haiku"
    retired = access.facts_of("claude-3-haiku")
    assert retired.dollars_in > 0
    assert access.route("openai/gpt-4o").missing == "DOCSTOKG_OPENAI_API_KEY"


def test_another_secret_is_refused_by_bedrock(
    role: None, server: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(Misconfigured, match="403"):
        complete(NOVA, models_of(server))
    assert server.problems == ["bedrock: the signature is another"]


def test_renewed_credentials_are_used_at_the_next_call(
    role: None, server: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A role's keys last hours: the ones of the first call must not be kept."""
    keys = RoleKeys()
    credentials = dict(keys())
    access = ModelAccess(provider_urls={"bedrock": server.at("bedrock")})
    lite = LiteLlm(lambda: dict(credentials))
    model = LanguageModels(access, HttpChat().generate, lite.generate, lite.warm)
    credentials["aws_secret_access_key"] = "expired"
    with pytest.raises(Misconfigured):
        complete(NOVA, model)
    credentials["aws_secret_access_key"] = SECRET
    assert complete(NOVA, model).text


def test_without_role_or_region_bedrock_says_so(
    monkeypatch: pytest.MonkeyPatch, server: Providers, tmp_path: Any
) -> None:
    for name in ("PROFILE", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with pytest.raises(NotConfigured, match="role"):
        RoleKeys()()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(NotConfigured, match="AWS_DEFAULT_REGION"):
        RoleKeys()()


@pytest.mark.parametrize("provider", BY_PROVIDER)
@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (401, Refused, "the key"),
        (403, Refused, "the rights"),
        (404, Misconfigured, "no such model"),
        (429, QuotaExceeded, "too many calls"),
        (500, Unavailable, "failed"),
        (503, Unavailable, "failed"),
    ],
)
def test_each_refusal_is_named(
    role: None, server: Providers, provider: str, status: int, kind: type, message: str
) -> None:
    server.refuse = {provider: status}
    with pytest.raises(kind, match=message) as caught:
        complete(BY_PROVIDER[provider], models_of(server))
    assert type(caught.value) is kind
    assert "What is it" not in str(caught.value)


@pytest.mark.parametrize("model", [name for name in MODELS if name != EXTRACTIVE])
def test_every_listed_model_has_context_and_price(model: str) -> None:
    models = Wiring(Settings()).language_model()
    context, price = models.context_tokens(model), models.price(model)
    assert context >= 100_000
    assert 0 < price[0] < price[1]


def test_model_facts_come_from_the_configured_table() -> None:
    table = ("qwen2.5:1.5b=4096", "bedrock/mine=32768/0.5/1.5")
    models = Wiring(Settings(model_table=table)).language_model()
    assert models.context_tokens("qwen2.5:1.5b") == 4096
    assert models.context_tokens("nobody") is None
    assert facts_table(table)["bedrock/mine"].dollars_out == 1.5
    for wrong in ("x", "=5", "x=5/1", "x=a/b/c"):
        with pytest.raises(ValueError, match="="):
            facts_table((wrong,))


def test_a_small_context_holds_fewer_passages(small_store, client_for, server: Providers) -> None:
    def prompted(*table: str) -> tuple[str, int]:
        server.asked.clear()
        client = client_for(small_store, **configured(server), models=("small",), model_table=table)
        body = answer_from(client, "small")
        content: str = server.asked[0][2]["messages"][1]["content"]
        return content, body["grounding"]["total_citations"]

    content, count = prompted("small=128000")
    assert content.count("PASSAGE 2") == 2
    assert count == content.count("] Source: ")
    content, count = prompted("small=620")
    assert content.count("PASSAGE 2") == 0
    assert count == 1, "a marker of a passage the model never saw is none"


def answer_from(client: Any, model: str) -> dict[str, Any]:
    body = answer_request(QUESTION, model=model, budget={"max_tokens_gen": 200, "timeout_s": 20})
    return body_of(client.post("/v1/answer", json=body))


@pytest.mark.parametrize(
    ("settings", "refuse", "cause"),
    [
        ({}, {}, "No key or address is set for model gpt-4o-mini (DOCSTOKG_OPENAI_API_KEY)."),
        ({"openai_api_key": "wrong"}, {}, "Model gpt-4o-mini refused the call (401, the key)."),
        (
            {"openai_api_key": OPENAI_KEY},
            {"openai": 429},
            "Model gpt-4o-mini refused because of too many calls (429).",
        ),
        (
            {"openai_api_key": OPENAI_KEY, "provider_urls": ("openai=http://127.0.0.1:9/v1",)},
            {},
            "Model gpt-4o-mini could not be reached.",
        ),
    ],
)
def test_the_warning_names_the_cause(
    small_store, client_for, server, settings: dict[str, Any], refuse: dict[str, int], cause: str
) -> None:
    server.refuse = refuse
    client = client_for(
        small_store, **{"provider_urls": (f"openai={server.at('openai')}",)} | settings
    )
    body = answer_from(client, "gpt-4o-mini")
    assert body["answer"] == ""
    assert body["warnings"] == [notices.SYNTHESIS_UNAVAILABLE, cause]


def test_doctor_asks_each_configured_model(role: None, server: Providers, small_store) -> None:
    server.answer = "ready"
    server.refuse = {"anthropic": 401}
    models = tuple(BY_PROVIDER.values())
    store = f"sqlite:///{small_store}"
    wiring = Wiring(
        Settings(
            index_url=store, graph_url=store, models=(*models, EXTRACTIVE), **configured(server)
        )
    )
    diagnoses = {diagnosis.part: diagnosis for diagnosis in examine(wiring, check=True)}
    states = [diagnoses[f"model {model}"].state for model in models]
    assert states == ["good", "missing", "good", "good"]
    assert "the key" in diagnoses["model claude-haiku-5-5"].message
    assert "'ready'" in diagnoses["model qwen2.5"].message
    assert len(server.asked) == 4
    assert f"model {EXTRACTIVE}" not in diagnoses


@pytest.mark.parametrize("model", BY_PROVIDER.values())
def test_each_provider_may_verify(role: None, server: Providers, model: str) -> None:
    rows = [
        {"n": 1, "verdict": "supported", "quotes": ["opens at 8 bar"]},
        {"n": 2, "verdict": "contradicted", "quotes": ["opens at 8 bar"]},
    ]
    server.answer = json.dumps({"statements": rows})
    verifier = Wiring(Settings(verifier=f"llm:{model}", **configured(server))).verifier()
    assert verifier.name == f"llm:{model}"
    pairs = [Pair(f"The gate opens at {n} bar.", ("The gate opens at 8 bar.",)) for n in (8, 9)]
    opinions = verifier.verify(pairs, Deadline.after(10.0))
    assert opinions == [
        Opinion(1.0, 0.0, ("opens at 8 bar",)),
        Opinion(0.0, 1.0, ("opens at 8 bar",)),
    ]
    assert len(server.asked) == 1 and not server.problems


def test_doctor_sends_a_true_and_a_false_claim(
    role: None, server: Providers, small_store, tmp_path
) -> None:
    store = f"sqlite:///{small_store}"
    at = {"index_url": store, "graph_url": store, "models": (EXTRACTIVE,)}

    def verifier_states(verifier: str | None) -> list[tuple[str, str]]:
        wiring = Wiring(Settings(verifier=verifier, **at, **configured(server)))
        diagnoses = examine(wiring, check=True)
        return [
            (diagnosis.state, diagnosis.message)
            for diagnosis in diagnoses
            if diagnosis.part == "verifier"
        ]

    assert [state for state, _ in verifier_states(None)] == ["off"]
    good = write_verifier(tmp_path / "good", ["not_entailment", "entailment"])
    (_, detail), (state, message) = verifier_states(f"onnx:{good}")
    assert detail == "onnx:good, supported from 0.5"
    assert state == "good" and "true claim supported (1" in message, message
    assert "false claim unsupported (0.0" in message
    blind = write_verifier(tmp_path / "blind", ["entailment", "not_entailment"], scale=0.0)
    assert [state for state, _ in verifier_states(f"onnx:{blind}")] == ["good", "missing"]
    (state, message), (late, opinions) = verifier_states(f"onnx:{tmp_path}/absent")
    assert state == late == "missing" and "config.json is missing" in message
    assert "true claim no opinion, false claim no opinion" in opinions


def test_a_missing_key_is_reported_before_importing_litellm() -> None:
    """In a process where the import fails, so that reaching for it would be seen."""
    code = (
        "import sys, json; sys.modules['litellm'] = None\n"
        "from docstokg.settings import Settings; from docstokg.wiring import Wiring\n"
        "model = Wiring(Settings()).language_model()\n"
        "tokens = model.context_tokens('gpt-4o')\n"
        "try: model.complete([], model='gpt-4o', temperature=0, max_tokens=5, deadline=None)\n"
        "except Exception as error: print(json.dumps([tokens, type(error).__name__]))"
    )
    done = ran(sys.executable, "-c", code, check=True)
    assert json.loads(done.stdout) == [None, "NotConfigured"]
