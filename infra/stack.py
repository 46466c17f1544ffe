"""Composes one environment out of its capabilities; every decision lives in their files."""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from infra.api import Api
from infra.budget import Budget
from infra.credentials import Secrets
from infra.data import SearchData
from infra.encryption import DataKey
from infra.firewall import Firewall
from infra.flags import Flags
from infra.functions import Functions
from infra.network import Network
from infra.observability import Alerts, Observability
from infra.settings import Environment
from infra.specs import ROLLBACK_ALARMS
from infra.state import State
from infra.traces import TraceQueue, TraceRecording
from infra.workflow import Workflow


class DocsToKGStack(cdk.Stack):
    """Everything of one environment."""

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, bundles: Path | None
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=f"docstokg-{environment.name}",
            description="DocsToKG: questions to evidence",
            # A region, no account: looked up at deploy, so that synthesis needs no credentials.
            env=cdk.Environment(region=environment.region),
            termination_protection=environment.termination_protection,
            synthesizer=cdk.DefaultStackSynthesizer(),
        )
        # W3005: orders CDK writes down although a reference implies them are harmless.
        self.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})
        cdk.Tags.of(self).add("docstokg:environment", environment.name)
        cdk.Tags.of(self).add("docstokg:service", "rag")
        network = (
            Network(self, "Network", network=environment.network) if environment.network else None
        )
        vpc, group = (network.vpc, network.group) if network else (None, None)
        key = DataKey(self, "DataKey", retain=environment.retain_data).key
        alerts = Alerts(self, "Alerts", key=key, email=environment.alarm_email)
        secrets = Secrets(
            self,
            "Secrets",
            key=key,
            retain=environment.retain_data,
            remote_embedder=environment.embed_provider != "local",
        )
        state = State(self, "State", key=key)
        data = SearchData(
            self, "Search", environment=environment, key=key, vpc=vpc, security_group=group
        )
        flags = Flags(self, "Flags", environment=environment.name, alarm=None)
        traces = TraceQueue(self, "Traces", key=key)
        functions = Functions(
            self,
            "Functions",
            environment=environment,
            bundles=bundles,
            key=key,
            data=data,
            state=state,
            secrets=secrets,
            flags=flags,
            trace_queue=traces.queue,
            vpc=vpc,
            security_group=group,
        ).by_name
        workflow = Workflow(self, "Workflow", environment=environment, functions=functions, key=key)
        if "mcp" in functions:
            workflow.let_start(functions["mcp"])
            for name in ("check", "traverse"):
                if name in functions:
                    variable = f"DOCSTOKG_{name.upper()}_FUNCTION_ARN"
                    functions["mcp"].let_invoke(functions[name], variable)
        api = Api(
            self, "Api", environment=environment, workflow=workflow, functions=functions, key=key
        )
        dead_letters = [traces.dead]
        if "record" in functions:
            recording = TraceRecording(
                self, "Recording", queue=traces, record=functions["record"], key=key
            )
            dead_letters.append(recording.missed)
        observability = Observability(
            self,
            "Observability",
            environment=environment.name,
            api=api,
            workflow=workflow,
            functions=functions,
            dead_letters=dead_letters,
            topic=alerts.topic,
        )
        workflow.shift_traffic([observability.alarms[name] for name in ROLLBACK_ALARMS])
        api.api.deployment_stage.node.add_dependency(workflow.alias)
        if environment.waf_requests_per_5_minutes is not None:
            Firewall(
                self,
                "Firewall",
                name=f"docstokg-{environment.name}",
                requests_per_5_minutes=environment.waf_requests_per_5_minutes,
                stage_arn=api.stage_arn,
            )
        Budget(
            self,
            "Budget",
            environment=environment.name,
            usd=environment.monthly_budget_usd,
            topic=alerts.topic,
        )
        cdk.CfnOutput(self, "Url", value=api.api.url)
        cdk.CfnOutput(self, "IndexUrl", value=data.url)
        cdk.CfnOutput(self, "LoaderPolicy", value=data.loader.managed_policy_arn)
        for use, secret in secrets.by_use.items():
            cdk.CfnOutput(self, f"Secret{use.title().replace('_', '')}", value=secret.secret_arn)
