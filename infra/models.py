"""Rights for language models."""

import re
from collections.abc import Collection, Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from docstokg.contracts.language_models import (
    BEDROCK_EMBEDDER,
    BEDROCK_RERANKER,
    EXTRACTIVE,
    ModelAccess,
)
from infra.rights import add
from infra.settings import Environment

# Includes Converse, the only API in use.
INVOKE = "bedrock:InvokeModel"

# Uses of functions that call models on Bedrock.
USES = ("model", "embedder", "reranker")

# Functions with a verifier; they call language models through synthesize.
VERIFYING = ("respond", "check")

_PROFILE = re.compile(r"(?:us-gov|apac|global|us|eu|jp|au|ca|sa)\.")
ANY_REGION = (
    "An inference profile sends a call to one of several regions, which AWS chooses and may "
    "extend; the condition lets the named model be called through the named profile only."
)


def vendors(environment: Environment) -> set[str]:
    """Return the vendors whose keys this environment needs."""
    base_url = environment.settings.get("llm_base_url")
    access = ModelAccess(base_url=base_url if isinstance(base_url, str) else None)
    names: set[str] = {access.route(model).provider for model in _remote(environment)}
    if environment.embed_provider not in ("local", "bedrock"):
        names.add("embedder")
    if environment.settings.get("rerank_provider", "none") not in ("none", "local", "bedrock"):
        names.add("reranker")
    if verifier(environment)[0] == "https":
        names.add("verifier")
    return names - {"bedrock"}


def bedrock_models(environment: Environment, uses: Collection[str] = USES) -> tuple[str, ...]:
    """Return the Bedrock models of functions with these `uses`: ids, profiles, ARNs."""
    access, settings = ModelAccess(), environment.settings
    routes = [access.route(model) for model in _remote(environment)]
    called = {"model": [route.name for route in routes if route.provider == "bedrock"]}
    if environment.embed_provider == "bedrock":
        called["embedder"] = [str(settings.get("embed_model", BEDROCK_EMBEDDER))]
    if settings.get("rerank_provider") == "bedrock":
        called["reranker"] = [str(settings.get("rerank_model", BEDROCK_RERANKER))]
    return tuple(dict.fromkeys(name for use in USES if use in uses for name in called.get(use, ())))


def verifier(environment: Environment) -> tuple[str, str]:
    """Return (kind, address) of the verifier setting `KIND:REST`; ("", "") without one."""
    kind, _, address = str(environment.settings.get("verifier") or "").partition(":")
    return kind, address


def guardrail_use(stack: cdk.Stack, guardrail: str) -> iam.PolicyStatement:
    """Return the right to apply one guardrail of this account and region."""
    arn = f"arn:{stack.partition}:bedrock:{stack.region}:{stack.account}:guardrail/{guardrail}"
    return iam.PolicyStatement(actions=["bedrock:ApplyGuardrail"], resources=[arn])


def _remote(environment: Environment) -> list[str]:
    fallback = environment.settings.get("llm_fallback_model")
    kind, model = verifier(environment)
    listed = [*environment.models, *([fallback] if isinstance(fallback, str) else [])]
    listed += [model] if kind == "llm" else []
    return [model for model in listed if model != EXTRACTIVE]


def statements(stack: cdk.Stack, models: tuple[str, ...]) -> list[iam.PolicyStatement]:
    """Return the rights to call exactly these models."""
    return [
        iam.PolicyStatement(
            actions=[INVOKE], resources=[resource], conditions=dict(conditions) or None
        )
        for model in models
        for resource, conditions in _resources(stack, model)
    ]


def _resources(stack: cdk.Stack, model: str) -> list[tuple[str, Mapping[str, Mapping[str, str]]]]:
    arn_prefix = f"arn:{stack.partition}:bedrock"
    if model.startswith("arn:"):
        resources: list[tuple[str, Mapping[str, Mapping[str, str]]]] = [(model, {})]
        if "inference-profile/" in model:
            resources.append((f"{arn_prefix}:*::foundation-model/*", _through(model)))
        return resources
    if (prefix := _PROFILE.match(model)) is None:
        return [(f"{arn_prefix}:{stack.region}::foundation-model/{model}", {})]
    profile = f"{arn_prefix}:{stack.region}:{stack.account}:inference-profile/{model}"
    served = model[prefix.end() :]
    return [(profile, {}), (f"{arn_prefix}:*::foundation-model/{served}", _through(profile))]


def _through(profile: str) -> Mapping[str, Mapping[str, str]]:
    return {"StringEquals": {"bedrock:InferenceProfileArn": profile}}


def let_invoke(role: iam.Role, models: tuple[str, ...]) -> None:
    """Allow a role to call these models, also through inference profiles."""
    stack = cdk.Stack.of(role)
    add(role, statements(stack, models), ANY_REGION)


def bedrock_endpoint(
    scope: Construct,
    vpc: ec2.IVpc,
    group: ec2.ISecurityGroup,
    allowed: Sequence[iam.PolicyStatement],
) -> None:
    """Create a Bedrock endpoint in the VPC with the policy `allowed`."""
    endpoint = ec2.InterfaceVpcEndpoint(
        Construct(scope, "Bedrock"),
        "Runtime",
        vpc=vpc,
        service=ec2.InterfaceVpcEndpointAwsService.BEDROCK_RUNTIME,
        subnets=ec2.SubnetSelection(subnets=vpc.private_subnets),
        security_groups=[group],
        open=False,
        private_dns_enabled=True,
    )
    for statement in allowed:
        statement.add_any_principal()
        endpoint.add_to_policy(statement)
