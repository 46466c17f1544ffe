"""Composes one environment out of its capabilities, in two stacks: what keeps data, what runs.

A failed or a rolled-back deploy of code never touches a domain that took half an hour to make.
"""

from __future__ import annotations

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra import models
from infra.api import Api
from infra.budget import Budget
from infra.canary import Asking
from infra.credentials import Secrets
from infra.data import SearchData
from infra.dependencies import watch_dependencies
from infra.encryption import DataKey
from infra.firewall import Firewall
from infra.flags import Flags
from infra.functions import Functions
from infra.ingestion import Ingestion
from infra.intake import Intake
from infra.network import Network
from infra.observability import Alerts, Observability
from infra.page import page_function
from infra.pruning import Pruning
from infra.settings import Environment
from infra.specs import ROLLBACK_ALARMS
from infra.state import State
from infra.storage import Storage
from infra.tracequeue import TraceQueue
from infra.traces import TraceRecording
from infra.workflow import Workflow


class _Stack(cdk.Stack):
    """A region and, when it is named, the only account this may go to; tags and protection."""

    def __init__(
        self, scope: Construct, construct_id: str, environment: Environment, name: str, about: str
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=name,
            description=f"DocsToKG: {about}",
            env=cdk.Environment(region=environment.region, account=environment.account or None),
            termination_protection=environment.termination_protection,
            synthesizer=cdk.DefaultStackSynthesizer(),
        )
        # W3005: orders CDK writes down although a reference implies them are harmless.
        self.add_metadata("cfn-lint", {"config": {"ignore_checks": ["W3005"]}})
        tags = {"docstokg:environment": environment.name, "docstokg:service": "rag"}
        for key, value in (tags | dict(environment.tags)).items():
            cdk.Tags.of(self).add(key, value)


class DataStack(_Stack):
    """Key, secrets, index, tables, bucket, topic: made once, changed rarely."""

    def __init__(self, scope: Construct, construct_id: str, *, environment: Environment) -> None:
        name = f"docstokg-{environment.name}-data"
        super().__init__(scope, construct_id, environment, name, "what is kept")
        retain = environment.retain_data
        self.network = (
            Network(self, "Network", network=environment.network) if environment.network else None
        )
        vpc, group = (self.network.vpc, self.network.group) if self.network else (None, None)
        # What converts strangers' files gets a group of its own once there is such a function.
        self.reading = (
            self.network.reading(environment.network.s3_prefix_list)
            if self.network and environment.network
            else None
        )
        self.key = DataKey(self, "DataKey", retain=retain).key
        self.topic = Alerts(self, "Alerts", key=self.key, email=environment.alarm_email).topic
        self.secrets = Secrets(
            self, "Secrets", key=self.key, retain=retain, vendors=models.vendors(environment)
        )
        self.state = State(self, "State", key=self.key)
        self.search = SearchData(
            self, "Search", environment=environment, key=self.key, vpc=vpc, security_group=group
        )
        self.storage = Storage(self, "Storage", key=self.key, retain=retain)
        self.search.loader.add_statements(self.storage.handing_over())
        self.intake = Intake(self, "Intake", key=self.key, retain=retain)
        cdk.CfnOutput(self, "IndexUrl", value=self.search.url)
        cdk.CfnOutput(self, "IndexName", value=environment.index_name)
        cdk.CfnOutput(self, "LoaderPolicy", value=self.search.loader.managed_policy_arn)
        cdk.CfnOutput(self, "SnapshotBucket", value=self.storage.bucket.bucket_name)
        cdk.CfnOutput(self, "SnapshotRole", value=self.storage.snapshots.role_arn)
        cdk.CfnOutput(self, "DocumentBucket", value=self.intake.bucket.bucket_name)
        cdk.CfnOutput(self, "SourcesPolicy", value=self.intake.sources.managed_policy_arn)
        cdk.CfnOutput(self, "AlarmTopic", value=self.topic.topic_arn)
        for name, secret in self.secrets.by_name.items():
            cdk.CfnOutput(self, f"Secret{name.title().replace('_', '')}", value=secret.secret_arn)


class RunStack(_Stack):
    """Functions, state machine, API, flags, alarms: deployed again with every change."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        data: DataStack,
        bundles: Path | None,
    ) -> None:
        name = f"docstokg-{environment.name}"
        super().__init__(scope, construct_id, environment, name, "questions to evidence")
        # Imported, so that no grant here writes into a policy of the stack this one stands on.
        key = kms.Key.from_key_arn(self, "Key", data.key.key_arn)
        topic = sns.Topic.from_topic_arn(self, "Alerts", data.topic.topic_arn)
        vpc, group = (data.network.vpc, data.network.group) if data.network else (None, None)
        flags = Flags(self, "Flags", environment=environment.name)
        traces = TraceQueue(self, "Traces", key=key)
        functions = Functions(
            self,
            "Functions",
            environment=environment,
            bundles=bundles,
            key=key,
            data=data.search,
            state=data.state,
            secrets=data.secrets,
            flags=flags,
            traces=traces,
            intake=data.intake,
            vpc=vpc,
            security_group=group,
            reading=data.reading,
        ).by_name
        if vpc and group and (model_names := models.bedrock_models(environment)):
            models.BedrockEndpoint(self, "Bedrock", vpc=vpc, group=group, models=model_names)
        workflow = Workflow(self, "Workflow", environment=environment, functions=functions, key=key)
        workflow.let_start(functions["mcp"])
        called = {name: functions[name] for name in ("check", "documents", "traverse")}
        functions["mcp"].let_invoke(called)
        if environment.page:
            functions["page"] = page_function(
                self, environment=environment, bundles=bundles, key=key
            )
        ingestion = Ingestion(
            self,
            "Ingestion",
            environment=environment,
            functions=functions,
            intake=data.intake,
            key=key,
        )
        ingestion.let_start(functions["documents"])
        api = Api(
            self, "Api", environment=environment, workflow=workflow, functions=functions, key=key
        )
        recording = TraceRecording(
            self, "Recording", queue=traces, record=functions["record"], key=key
        )
        observability = Observability(
            self,
            "Observability",
            environment=environment.name,
            api=api,
            workflow=workflow,
            functions=functions,
            dead_letters=[traces.dead, recording.missed],
            topic=topic,
        )
        ingestion.watch(observability, functions["documents"])
        if environment.index.kind == "managed":  # an existing domain is its owner's to save
            ingestion.save(observability, functions["ingest_close"], data.search)
        watch_dependencies(
            observability,
            index=environment.index,
            domain_name=data.search.domain_name,
            tables=[data.state.cache, data.state.circuit],
            traces=traces.queue,
            access_logs=api.access_logs,
        )
        if environment.canary is not None:
            Asking(
                self,
                "Canary",
                canary=environment.canary,
                workflow=workflow,
                observability=observability,
            )
        workflow.shift_traffic([observability.alarms[name] for name in ROLLBACK_ALARMS])
        flags.roll_back_on(observability.alarms["degraded"])
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
            topic=topic,
        )
        machines = [workflow.machine.state_machine_arn, ingestion.machine.state_machine_arn]
        pruner = Pruning(self, "Pruning", machines=machines, functions=functions).role
        cdk.CfnOutput(self, "Url", value=api.api.url)
        cdk.CfnOutput(self, "CallerPolicy", value=api.callers.managed_policy_arn)
        cdk.CfnOutput(self, "LoadingCallerPolicy", value=api.senders.managed_policy_arn)
        cdk.CfnOutput(self, "IngestMachine", value=ingestion.machine.state_machine_arn)
        cdk.CfnOutput(self, "FlagsProfile", value=flags.path)
        cdk.CfnOutput(self, "PrunerRole", value=pruner.role_arn)
