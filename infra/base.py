"""Base of an environment's stacks."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.settings import Environment


def put_out(scope: Construct, **values: str) -> None:
    """Add outputs to the stack of `scope`."""
    for name, value in values.items():
        cdk.CfnOutput(scope, name, value=value)


class Stack(cdk.Stack):
    """A stack of one region and, if set, account; with tags and protection.

    `target`: its environment; `key`: for data at rest; `bundles`: folder of the functions' zips,
    None for sources.
    """

    key: kms.IKey

    def __init__(
        self,
        scope: Construct,
        target: Environment,
        about: str,
        suffix: str = "",
        bundles: Path | None = None,
    ) -> None:
        name = f"docstokg-{target.name}{suffix}"
        super().__init__(
            scope,
            name,
            description=f"DocsToKG: {about}",
            env=cdk.Environment(region=target.region, account=target.account or None),
            termination_protection=target.termination_protection,
            synthesizer=cdk.DefaultStackSynthesizer(),
        )
        self.target, self.bundles = target, bundles
        # W3005: redundant DependsOn entries from CDK are harmless.
        self.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})
        tags = {"docstokg:environment": target.name, "docstokg:service": "rag"}
        for key, value in (tags | dict(target.tags)).items():
            cdk.Tags.of(self).add(key, value)
