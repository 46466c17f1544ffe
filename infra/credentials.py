"""Secrets by reference: the stack makes empty ones, an operator fills them, functions read ARNs."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.nag import acknowledge

ROTATED_BY_VENDOR = (
    "A credential of another vendor (graph, model, embeddings): it is rotated there and put here "
    "by `aws secretsmanager put-secret-value`; docs/deploy.md says when."
)


class Secrets(Construct):
    """One secret per credential, so that each function can be given exactly its own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        key: kms.IKey,
        retain: bool,
        remote_embedder: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._key = key
        self._policy = cdk.RemovalPolicy.RETAIN if retain else cdk.RemovalPolicy.DESTROY
        self.by_use = {
            "graph": self._secret("GraphReader", '{"graph_user": "reader"}', "graph_password"),
            "graph_writer": self._secret(
                "GraphWriter", '{"graph_user": "trace"}', "graph_password"
            ),
            "model": self._secret("Model", "{}", "llm_api_key"),
        }
        if remote_embedder:
            self.by_use["embedder"] = self._secret("Embedder", "{}", "embed_api_key")

    def of(self, uses: frozenset[str]) -> list[secretsmanager.Secret]:
        """The secrets of a function that reaches `uses`; their fields are names of settings."""
        return [secret for use, secret in self.by_use.items() if use in uses]

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
        acknowledge(secret, {"AwsSolutions-SMG4": ROTATED_BY_VENDOR})
        return secret
