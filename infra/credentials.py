"""Secrets."""

from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.base import Stack
from infra.models import vendors
from infra.nag import acknowledge
from infra.removal import removal
from infra.rights import allow, use_key

ROTATED_BY_VENDOR = (
    "A credential of the graph, a model's vendor or the gateway: it is rotated there and put here "
    "by `aws secretsmanager put-secret-value`; docs/deploy.md says when."
)
# Vendor -> use of the functions with its key, and the key's setting.
VENDORS: Mapping[str, tuple[str, str]] = {
    "openai": ("model", "openai_api_key"),
    "anthropic": ("model", "anthropic_api_key"),
    "gateway": ("model", "llm_api_key"),
    "embedder": ("embedder", "embed_api_key"),
    "reranker": ("reranker", "rerank_api_key"),
    "verifier": ("verifier", "verifier_api_key"),
    "plans": ("tokens", "plan_keys"),
}


class Secrets(Construct):
    """One secret per credential."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack, "Secrets")
        self._key, self._policy = stack.key, removal(retain=stack.target.retain_data)
        needed = vendors(stack.target) | ({"plans"} if stack.target.metering else set())
        self.by_name = {
            "graph": self._secret("GraphReader", '{"graph_user": "reader"}', "graph_password"),
            "graph_writer": self._secret(
                "GraphWriter", '{"graph_user": "trace"}', "graph_password"
            ),
            "graph_loader": self._secret(
                "GraphLoader", '{"graph_user": "loader"}', "graph_password"
            ),
        }
        for vendor, (_, field) in VENDORS.items():
            if vendor in needed:
                self.by_name[vendor] = self._secret(vendor.title(), "{}", field)

    def of(self, uses: frozenset[str]) -> list[secretsmanager.Secret]:
        """Return the secrets of these `uses`; their fields name settings."""
        return [
            secret
            for name, secret in self.by_name.items()
            if (VENDORS[name][0] if name in VENDORS else name) in uses
        ]

    def grant_read(self, role: iam.Role, uses: frozenset[str]) -> None:
        """Allow `role` to read the secrets of `uses`, by its own policy."""
        if mine := self.of(uses):
            for secret in mine:
                allow(role, ["secretsmanager:GetSecretValue"], secret.secret_arn)
            use_key(role, self._key, "secretsmanager", ["kms:Decrypt"])

    def _secret(self, construct_id: str, template: str, field: str) -> secretsmanager.Secret:
        secret = secretsmanager.Secret(
            self,
            construct_id,
            description=f"{construct_id}: JSON; replace {field} after the first deploy",
            encryption_key=self._key,
            generate_secret_string=secretsmanager.SecretStringGenerator(
                secret_string_template=template, generate_string_key=field
            ),
            removal_policy=self._policy,
        )
        acknowledge(secret, ROTATED_BY_VENDOR, "AwsSolutions-SMG4")
        return secret
