"""Every setting can be deployed: who reads it is given it, and models, keys and rights follow."""

import dataclasses
import json
from functools import partial
from typing import Any

import pytest

from benchmarks.cloud_costs import counted
from docstokg.errors import Misconfigured
from docstokg.settings import Settings
from docstokg_functions.documents.source_loads import JOB
from infra import variables
from infra.models import INVOKE
from infra.settings import ENVIRONMENTS
from infra.specs import FUNCTIONS, FunctionSpec
from tests.infra.conftest import Template, synthesised
from tests.infra.deployed import ACCOUNT, REGION, Deployed
from tests.infra.iam import Policies

# A driver that is refused leaves its socket to the collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

GIVEN = {
    "repair": "attribute", "rerank_provider": "cohere",
    "rerank_base_url": "https://rerank.internal/v2", "llm_base_url": "https://gateway.internal/v1",
    "llm_fallback_model": "extractive", "model_table": ("house-model=32768/0.5/1.5",),
    "kg_boost_value": 0.2, "rag_log_snippets": False, "verifier": "llm:bedrock/meta.llama3-8b-v1:0",
}  # fmt: skip
MODELS = (
    "house-model",
    "openai/gpt-6-luna",
    "bedrock/eu.amazon.nova-lite-v1:0",
    "bedrock/amazon.nova-micro-v1:0",
    "extractive",
)


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Staging with models of four providers, a reranker and a gateway; both rule packs hold."""
    folder = tmp_path_factory.mktemp("chosen")
    return synthesised(folder, "staging", f"models={MODELS!r}, settings={GIVEN!r}")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"colour": "red"}, "colour cannot be set from here"),
        ({"llm_api_key": "k"}, "llm_api_key cannot be set from here"),
        ({"models": ("x",)}, "has a field of its own"),
        ({"repair": "loudly"}, "DOCSTOKG_REPAIR"),
        ({"kg_boost_value": "0.2"}, "another type"),
        ({"verifier": "onnx:/models/x"}, "no bundle holds the folder"),
    ],
)
def test_a_wrong_choice_ends_the_synthesis(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        variables.chosen(dataclasses.replace(ENVIRONMENTS["dev"], settings=settings))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Staging with a guardrail as verifier."""
    settings = {"verifier": "bedrock-guardrail:abc123:2", "verifier_threshold": 0.7}
    return synthesised(tmp_path_factory.mktemp("guarded"), "staging", f"settings={settings!r}")


def test_only_synthesize_may_call_a_verifying_language_model(
    chosen: Template, dev: Template
) -> None:
    policies = Policies(Deployed(chosen))
    model = f"arn:aws:bedrock:{REGION}::foundation-model/meta.llama3-8b-v1:0"
    assert policies.may("synthesize", INVOKE, model)
    for step in ("respond", "check"):
        assert "synthesize=" in json.dumps(values(chosen, step)["DOCSTOKG_ROUTE_FUNCTIONS"])
        assert values(chosen, step)["DOCSTOKG_VERIFIER"] == GIVEN["verifier"]
        assert "DOCSTOKG_ROUTE_FUNCTIONS" not in values(dev, step)
        assert not policies.may(step, INVOKE, model)
    invoke = "lambda:InvokeFunction"
    target = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:docstokg-staging-synthesize:live"
    other = target.replace("synthesize", "documents")
    for step, may in {"respond": True, "check": True, "ground": False, "stream": False}.items():
        assert policies.may(step, invoke, target) is may, step
        assert not policies.may(step, invoke, other), step


def test_one_guardrail_may_be_applied_by_two_functions(guarded: Template, dev: Template) -> None:
    policies, plain = Policies(Deployed(guarded)), Policies(Deployed(dev))
    use, arn = "bedrock:ApplyGuardrail", f"arn:aws:bedrock:{REGION}:{ACCOUNT}:guardrail/abc123"
    for step in ("respond", "check"):
        assert policies.may(step, use, arn)
        assert not policies.may(step, use, arn.replace("abc123", "xyz789"))
        assert values(guarded, step)["DOCSTOKG_VERIFIER_THRESHOLD"] == "0.7"
        assert not plain.may(step, use, arn)
    for step in ("synthesize", "ground", "stream"):
        assert not policies.may(step, use, arn)
    door = guarded.only("AWS::EC2::VPCEndpoint")
    assert [statement["Action"] for statement in door["PolicyDocument"]["Statement"]] == [use]


def values(template: Template, name: str) -> dict[str, Any]:
    variables: dict[str, Any] = template.function(name)["Environment"]["Variables"]
    return variables


@pytest.mark.parametrize("spec", FUNCTIONS, ids=lambda spec: spec.name)
def test_every_function_has_the_settings(spec: FunctionSpec, chosen: Template) -> None:
    variables = {k: v for k, v in values(chosen, spec.name).items() if isinstance(v, str)}
    settings = Settings.from_environment(variables)
    assert {name: getattr(settings, name) for name in GIVEN} == GIVEN
    assert settings.models == MODELS


def test_each_provider_has_a_secret_of_its_own(chosen: Template, dev: Template) -> None:
    def keys(template: Template) -> set[str]:
        return {
            secret["GenerateSecretString"]["GenerateStringKey"]
            for secret in template.all("AWS::SecretsManager::Secret").values()
        }

    always = {"graph_password"}
    assert keys(dev) == always | {"openai_api_key", "anthropic_api_key"}
    needed = {"openai_api_key", "llm_api_key", "rerank_api_key", "plan_keys"}
    assert keys(chosen) == always | needed
    assert {"SecretOpenai", "SecretGateway", "SecretReranker"} <= set(chosen.outputs)
    secrets = values(chosen, "synthesize")["DOCSTOKG_SECRETS"]
    assert json.dumps(secrets).count('"Ref"') == 2, "openai and the gateway"
    assert json.dumps(values(chosen, "ground")["DOCSTOKG_SECRETS"]).count('"Ref"') == 1


def test_iam_allows_only_the_models_own_profile(chosen: Template, dev: Template) -> None:
    """Bedrock guide, "Prerequisites for inference profiles": the profile and, through it alone,

    its model in whatever region serves the call; a model without a profile is named itself.
    """
    may = partial(Policies(Deployed(chosen)).may, "synthesize")
    profile = f"arn:aws:bedrock:{REGION}:{ACCOUNT}:inference-profile/eu.amazon.nova-lite-v1:0"
    served = "arn:aws:bedrock:eu-north-1::foundation-model/amazon.nova-lite-v1:0"
    named = f"arn:aws:bedrock:{REGION}::foundation-model/amazon.nova-micro-v1:0"
    through = {"bedrock:InferenceProfileArn": profile}
    assert may(INVOKE, profile) and may(INVOKE, served, through) and may(INVOKE, named)
    other = {"bedrock:InferenceProfileArn": profile.replace("lite", "pro")}
    for neighbour in (
        (INVOKE, served),
        (INVOKE, served, other),
        (INVOKE, served.replace("lite", "pro"), through),
        (INVOKE, named.replace("micro", "premier")),
        (INVOKE, named.replace(REGION, "us-east-1")),
        (INVOKE, profile.replace(ACCOUNT, "999988887777")),
        ("bedrock:InvokeModelWithResponseStream", named),
        ("bedrock:CreateModelInvocationJob", named),
    ):
        assert not may(*neighbour), neighbour
    for step in ("ground", "respond", "check"):
        assert not Policies(Deployed(chosen)).may(step, INVOKE, named), step
    # Without the statement nobody may: an environment that names no model of Bedrock.
    assert not Policies(Deployed(dev)).may("synthesize", INVOKE, named)


def test_bedrock_has_a_door_inside_the_vpc(chosen: Template, staging: Template) -> None:
    door = chosen.only("AWS::EC2::VPCEndpoint")
    assert door["VpcEndpointType"] == "Interface" and door["PrivateDnsEnabled"]
    assert "bedrock-runtime" in json.dumps(door["ServiceName"])
    assert len(door["SubnetIds"]) == 3
    actions = {statement["Action"] for statement in door["PolicyDocument"]["Statement"]}
    assert actions == {INVOKE}
    assert not staging.all("AWS::EC2::VPCEndpoint")
    assert counted([{"Resources": chosen.resources}]).endpoint_zones == 3


@pytest.fixture(scope="module")
def encoding(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Staging that embeds and reranks on Bedrock; both rule packs hold."""
    settings = {"embed_model": "eu.cohere.embed-v4:0", "rerank_provider": "bedrock"}
    changes = f"embed_provider='bedrock', models=('extractive',), settings={settings!r}"
    changes += ", load_on_change=False, sync={'default': 'cron(0 3 * * ? *)'}"
    return synthesised(tmp_path_factory.mktemp("encoding"), "staging", changes)


def test_bedrock_embedding_and_reranking_reach_only_their_models(encoding: Template) -> None:
    """Loading embeds too; the calls pass the VPC's own endpoint, and no secret is made for them."""
    policies = Policies(Deployed(encoding))
    profile = f"arn:aws:bedrock:{REGION}:{ACCOUNT}:inference-profile/eu.cohere.embed-v4:0"
    through = {"bedrock:InferenceProfileArn": profile}
    served = "arn:aws:bedrock:eu-west-3::foundation-model/cohere.embed-v4:0"
    ranks = f"arn:aws:bedrock:{REGION}::foundation-model/amazon.rerank-v1:0"
    for spec in FUNCTIONS:
        may = partial(policies.may, spec.name)
        assert may(INVOKE, profile) is ("embedder" in spec.uses), spec.name
        assert may(INVOKE, served, through) is ("embedder" in spec.uses), spec.name
        assert not may(INVOKE, served)
        assert may(INVOKE, ranks) is (spec.name == "ground"), spec.name
        assert not may("bedrock:Rerank", "*")
    assert values(encoding, "ingest_encode")["DOCSTOKG_EMBED_MODEL"] == "eu.cohere.embed-v4:0"
    secrets = " ".join(encoding.all("AWS::SecretsManager::Secret"))
    assert "Embedder" not in secrets and "Reranker" not in secrets
    allowed = encoding.only("AWS::EC2::VPCEndpoint")["PolicyDocument"]["Statement"]
    assert {statement["Action"] for statement in allowed} == {INVOKE}
    assert all(name in json.dumps(allowed) for name in ("cohere.embed-v4:0", "amazon.rerank-v1:0"))
    group = encoding.function("ingest_encode")["VpcConfig"]["SecurityGroupIds"]
    assert group != encoding.function("ingest_read")["VpcConfig"]["SecurityGroupIds"]


def test_schedules_start_loads_and_changes_do_not(encoding: Template, staging: Template) -> None:
    deployed = Deployed(encoding)
    schedule = deployed.properties(deployed.of("AWS::Scheduler::Schedule", "Sync"))
    assert schedule["ScheduleExpression"] == "cron(0 3 * * ? *)"
    assert json.loads(schedule["Target"]["Input"]) == {"job": JOB, "namespace": "default"}
    assert schedule["Target"]["Arn"] == f"{deployed.arn(deployed.function('documents'))}:live"
    assert not encoding.all("AWS::Events::Rule")
    assert "NotificationConfiguration" not in json.dumps(encoding.all("AWS::S3::Bucket"))
    assert staging.all("AWS::Events::Rule")
    assert not [name for name in staging.all("AWS::Scheduler::Schedule") if "Sync" in name]
