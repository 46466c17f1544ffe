"""Switches that act without a deploy: one AppConfig profile, shifted slowly, kept to a schema."""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_appconfig as appconfig
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

PORT = 2772
DEFAULTS: dict[str, bool | float] = {
    "KG_ENABLED": True,
    "KG_BOOST_ENABLED": True,
    "KG_BOOST_VALUE": 0.1,
    "KG_2HOP_ENABLED": True,
    "FEATURE_VERBOSITY_GRAPH": True,
    "FEATURE_TRAVERSAL_TOOL": True,
    "PROVIDER_JINA_ENABLED": True,
}
_SCHEMA = {
    "$schema": "http://json-schema.org/draft-04/schema#",
    "type": "object",
    "additionalProperties": False,
    "required": sorted(DEFAULTS),
    "properties": {
        name: {"type": "number", "minimum": 0, "maximum": 1}
        if isinstance(value, float)
        else {"type": "boolean"}
        for name, value in sorted(DEFAULTS.items())
    },
}


class Flags(Construct):
    """The flags document, its schema, and the address functions read it from."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: str,
        alarm: cloudwatch.IAlarm | None,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        self.application = appconfig.Application(
            self, "Application", application_name=f"docstokg-{environment}"
        )
        self.environment = appconfig.Environment(
            self,
            "Environment",
            application=self.application,
            environment_name=environment,
            monitors=[appconfig.Monitor.from_cloud_watch_alarm(alarm)] if alarm else None,
        )
        self.profile = appconfig.HostedConfiguration(
            self,
            "Flags",
            application=self.application,
            name="flags",
            content=appconfig.ConfigurationContent.from_inline_json(
                json.dumps(DEFAULTS, sort_keys=True)
            ),
            validators=[appconfig.JsonSchemaValidator.from_inline(json.dumps(_SCHEMA))],
            deploy_to=[self.environment],
            deployment_strategy=appconfig.DeploymentStrategy(
                self,
                "Slowly",
                rollout_strategy=appconfig.RolloutStrategy.linear(
                    growth_factor=50,
                    deployment_duration=cdk.Duration.minutes(2),
                    final_bake_time=cdk.Duration.minutes(2),
                ),
            ),
        )
        self.extension_layer = appconfig.Application.get_lambda_layer_version_arn(
            stack.region, appconfig.Platform.ARM_64
        )
        self.path = (
            f"{self.application.application_id}/{self.environment.environment_id}"
            f"/{self.profile.configuration_profile_id}"
        )

    def grant_read(self, role: iam.IGrantable) -> None:
        """Let `role` poll this one profile in this one environment."""
        iam.Grant.add_to_principal(
            grantee=role,
            actions=["appconfig:StartConfigurationSession", "appconfig:GetLatestConfiguration"],
            resource_arns=[
                cdk.Stack.of(self).format_arn(
                    service="appconfig",
                    resource="application",
                    resource_name=(
                        f"{self.application.application_id}/environment/"
                        f"{self.environment.environment_id}/configuration/"
                        f"{self.profile.configuration_profile_id}"
                    ),
                )
            ],
        )
