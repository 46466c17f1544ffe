"""Feature flags in AppConfig."""

import json

import aws_cdk as cdk
from aws_cdk import aws_appconfig as appconfig
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

from docstokg.settings import UNPREFIXED, Settings
from infra.base import Stack
from infra.rights import allow, service_role

PORT = 2772
DEFAULTS: dict[str, bool | float] = {
    name: Settings.model_fields[name.lower()].default
    for name in UNPREFIXED
    if name != "RAG_LOG_SNIPPETS"  # logging of texts is decided by a deploy
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

ANY_ALARM = "AppConfig's guide asks for DescribeAlarms on every alarm; it reads states, no more."


def agent_layer(stack: cdk.Stack) -> str:
    """Return the ARN of the layer that reads flags for a function."""
    return appconfig.Application.get_lambda_layer_version_arn(
        stack.region, appconfig.Platform.ARM_64
    )


class Flags(Construct):
    """Flags document and schema."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack, "Flags")
        environment = stack.target.name
        application = appconfig.Application(
            self, "Application", application_name=f"docstokg-{environment}"
        )
        self.environment = appconfig.Environment(
            self, "Environment", application=application, environment_name=environment
        )
        profile = appconfig.HostedConfiguration(
            self,
            "Flags",
            application=application,
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
        for child in profile.node.children:
            if isinstance(child, appconfig.CfnHostedConfigurationVersion):
                # CDK's kept versions would block the profile's deletion.
                child.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        of, at = application.application_id, self.environment.environment_id
        flags = profile.configuration_profile_id
        self.path = f"{of}/{at}/{flags}"
        # Fetched while a sandbox starts, before the first request.
        self.prefetch = f"/applications/{of}/environments/{at}/configurations/{flags}"

    def roll_back_on(self, alarm: cloudwatch.Alarm) -> None:
        """Roll back a change of flags if `alarm` fires during its rollout."""
        role = service_role(self, "Watcher", "appconfig")
        allow(role, ["cloudwatch:DescribeAlarms"], "*", stars=ANY_ALARM)
        resource = self.environment.node.default_child
        assert isinstance(resource, appconfig.CfnEnvironment)
        watched = appconfig.CfnEnvironment.MonitorsProperty(
            alarm_arn=alarm.alarm_arn, alarm_role_arn=role.role_arn
        )
        resource.monitors = [watched]

    def grant_read(self, role: iam.Role) -> None:
        """Allow `role` to poll this one profile in this one environment."""
        application, environment, profile = self.path.split("/")
        name = f"{application}/environment/{environment}/configuration/{profile}"
        arn = cdk.Stack.of(self).format_arn(
            service="appconfig", resource="application", resource_name=name
        )
        polling = ["appconfig:StartConfigurationSession", "appconfig:GetLatestConfiguration"]
        allow(role, polling, arn)
