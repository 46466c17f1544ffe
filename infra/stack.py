"""Composes one environment out of its capabilities, in two stacks: what keeps data, what runs.

A failed or a rolled-back deploy of code never touches a domain that took half an hour to make.
"""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra import models
from infra.api import Api
from infra.budget import budget
from infra.canary import keep_asking
from infra.credentials import Secrets
from infra.data import SearchData
from infra.dependencies import watch_dependencies
from infra.encryption import data_key
from infra.firewall import firewall
from infra.flags import Flags
from infra.functions import Functions
from infra.ingestion import Ingestion
from infra.intake import Intake
from infra.network import Network
from infra.observability import Observability, alert_topic
from infra.page import page_function
from infra.pruning import pruner
from infra.settings import Environment
from infra.specs import ROLLBACK_ALARMS
from infra.state import State
from infra.storage import Storage
from infra.tracequeue import TraceQueue
from infra.traces import record_traces
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
        own = environment.network
        self.network = Network(self, "Network", network=own) if own else None
        self.key = data_key(self, retain=retain)
        self.topic = alert_topic(self, self.key, environment.alarm_email)
        self.secrets = Secrets(
            self, "Secrets", key=self.key, retain=retain, vendors=models.vendors(environment)
        )
        self.state = State(self, "State", key=self.key)
        self.search = SearchData(
            self, "Search", environment=environment, key=self.key, network=self.network
        )
        self.storage = Storage(self, "Storage", key=self.key, retain=retain)
        # Who registers the repository of snapshots gives the domain this one role.
        roles = [self.storage.snapshots.role_arn]
        handing_over = iam.PolicyStatement(actions=["iam:PassRole"], resources=roles)
        self.search.loader.add_statements(handing_over)
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
            network=data.network,
        ).by_name
        if data.network and (model_names := models.bedrock_models(environment)):
            models.bedrock_endpoint(self, data.network.vpc, data.network.group, model_names)
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
        missed = record_traces(self, traces, functions["record"], key)
        observability = Observability(
            self,
            "Observability",
            environment=environment.name,
            api=api,
            workflow=workflow,
            functions=functions,
            dead_letters=[traces.dead, missed],
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
            keep_asking(self, environment.canary, workflow, observability)
        workflow.shift_traffic([observability.alarms[name] for name in ROLLBACK_ALARMS])
        flags.roll_back_on(observability.alarms["degraded"])
        api.api.deployment_stage.node.add_dependency(workflow.alias)
        if (limit := environment.waf_requests_per_5_minutes) is not None:
            firewall(self, name, limit, api.api.deployment_stage.stage_arn)
        budget(self, environment.name, environment.monthly_budget_usd, topic)
        machines = [workflow.machine.state_machine_arn, ingestion.machine.state_machine_arn]
        pruning = pruner(self, machines, functions)
        cdk.CfnOutput(self, "Url", value=api.api.url)
        cdk.CfnOutput(self, "CallerPolicy", value=api.callers.managed_policy_arn)
        cdk.CfnOutput(self, "LoadingCallerPolicy", value=api.senders.managed_policy_arn)
        cdk.CfnOutput(self, "IngestMachine", value=ingestion.machine.state_machine_arn)
        cdk.CfnOutput(self, "FlagsProfile", value=flags.path)
        cdk.CfnOutput(self, "PrunerRole", value=pruning.role_arn)
