"""Stack of the service."""

from pathlib import Path

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra import models
from infra.api import Api
from infra.base import Stack, put_out
from infra.budget import budget
from infra.canary import keep_asking
from infra.data_stack import DataStack
from infra.dependencies import watch_dependencies, watch_firewall
from infra.firewall import firewall
from infra.flags import Flags
from infra.functions import Functions
from infra.ingestion import Ingestion
from infra.observability import Observability
from infra.page import page_function
from infra.pruning import pruner
from infra.settings import Environment
from infra.source_loads import load_sources
from infra.specs import ROLLBACK_ALARMS
from infra.tracequeue import TraceQueue
from infra.traces import record_traces
from infra.workflow import Workflow


class RunStack(Stack):
    """Functions, state machine, API, flags, alarms."""

    def __init__(
        self, scope: Construct, target: Environment, data: DataStack, bundles: Path | None
    ) -> None:
        super().__init__(scope, target, "questions to evidence", bundles=bundles)
        # Imported, so that grants do not change the data stack.
        self.key = kms.Key.from_key_arn(self, "Key", data.key.key_arn)
        topic = sns.Topic.from_topic_arn(self, "Alerts", data.topic.topic_arn)
        notices = sns.Topic.from_topic_arn(self, "Notices", data.notices.topic_arn)
        flags, traces = Flags(self), TraceQueue(self)
        functions = Functions(self, data, flags, traces).by_name
        kind, address = models.verifier(target)
        guardrail = address.partition(":")[0] if kind == "bedrock-guardrail" else ""
        for name in models.VERIFYING:
            if guardrail:
                functions[name].role.add_to_policy(models.guardrail_use(self, guardrail))
            elif kind == "llm":
                functions[name].let_invoke({"synthesize": functions["synthesize"]})
        bedrock = models.statements(self, models.bedrock_models(target))
        bedrock += [models.guardrail_use(self, guardrail)] if guardrail else []
        if data.network and bedrock:
            models.bedrock_endpoint(self, data.network.vpc, data.network.group, bedrock)
        workflow = Workflow(self, functions)
        for name in ("mcp", "stream"):
            workflow.let_start(functions[name])
        called = {name: functions[name] for name in ("check", "documents", "traverse")}
        functions["mcp"].let_invoke(called)
        if target.page:
            functions["page"] = page_function(self)
        ingestion = Ingestion(self, functions, data.intake)
        ingestion.let_start(functions["documents"])
        load_sources(self, data.intake, ingestion, functions["documents"], traces.dead)
        api = Api(self, workflow, functions)
        missed = record_traces(self, traces, functions["record"])
        dead = [traces.dead, missed]
        observability = Observability(self, api, workflow, functions, dead, (topic, notices))
        ingestion.watch(observability, functions["documents"])
        if target.index.kind == "managed":  # an existing domain is saved by its owner
            ingestion.watch_shards(observability, functions["ingest_close"])
        watch_dependencies(observability, data, traces.queue, api.access_logs)
        if target.canary is not None:
            keep_asking(self, target.canary, workflow, observability)
        workflow.shift_traffic([observability.alarms[name] for name in ROLLBACK_ALARMS])
        flags.roll_back_on(observability.alarms["degraded"])
        api.api.deployment_stage.node.add_dependency(workflow.alias)
        if (limit := target.waf_requests_per_5_minutes) is not None:
            stage_arn = api.api.deployment_stage.stage_arn
            watch_firewall(observability, firewall(self, self.stack_name, limit, stage_arn))
        budget(self, target.name, target.monthly_budget_usd, notices)
        machines = [workflow.machine.state_machine_arn, ingestion.machine.state_machine_arn]
        pruning = pruner(self, machines, functions)
        put_out(
            self,
            Url=api.api.url,
            CallerPolicy=api.callers.managed_policy_arn,
            LoadingCallerPolicy=api.senders.managed_policy_arn,
            IngestMachine=ingestion.machine.state_machine_arn,
            FlagsProfile=flags.path,
            PrunerRole=pruning.role_arn,
        )
