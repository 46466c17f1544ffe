"""Automatic loads."""

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from docstokg_functions.documents.source_loads import FAILED, JOB
from infra.base import Stack
from infra.functions import Function
from infra.ingestion import Ingestion
from infra.intake import SOURCES, Intake
from infra.nag import acknowledge
from infra.rights import allow, service_role, use_key
from infra.tracequeue import queue_before
from infra.traces import keyless, read_queue

BATCH = 1_000
# Reason of the removal of an old version, which is no change.
EXPIRED = "Lifecycle Expiration"
BY_NAMESPACE = "A schedule of this environment's own group is named by its namespace."

ONE_STACK = "Rule, queue and function are in this stack, so in one account and region."


def load_sources(
    stack: Stack, intake: Intake, ingestion: Ingestion, documents: Function, dead: sqs.Queue
) -> None:
    """Make the documents function load `sources/NAMESPACE/` by schedules and after S3 events."""
    for namespace, when in stack.target.sync.items():
        event = {"job": JOB, "namespace": namespace}
        description = f"Load sources/{namespace}/ and remove its deleted documents"
        ingestion.every(when, f"Sync-{namespace}", documents, event, description)
    if stack.target.load_on_change:
        _load_on_change(stack, intake, ingestion, documents, dead)


def _load_on_change(
    stack: Stack, intake: Intake, ingestion: Ingestion, documents: Function, dead: sqs.Queue
) -> None:
    machine = ingestion.name
    changes_scope = Construct(stack, "Changes")
    # A bulk copy must not take the function's concurrency.
    queue = queue_before(changes_scope, "Queue", stack.key, dead)
    read_queue(changes_scope, queue, documents, BATCH)
    use_key(documents.role, stack.key, "sqs", ["kms:Decrypt"])
    target = targets.SqsQueue(keyless(changes_scope, "Target", queue), dead_letter_queue=dead)
    changes = events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created", "Object Deleted"],
        detail={
            "bucket": {"name": [intake.bucket.bucket_name]},
            "object": {"key": events.Match.prefix(SOURCES)},
            "reason": events.Match.anything_but(EXPIRED),
        },
    )
    failures = events.EventPattern(
        source=["aws.states"],
        detail_type=["Step Functions Execution Status Change"],
        detail={"stateMachineArn": [ingestion.arn], "status": list(FAILED)},
    )
    for name, pattern, description in (
        ("Rule", changes, "Objects below sources/ were created or deleted"),
        ("Failures", failures, "A load failed: one of sources/ is tried again"),
    ):
        rule = events.Rule(
            changes_scope, name, description=description, event_pattern=pattern, targets=[target]
        )
        acknowledge(rule, ONE_STACK, "@aws-cdk/aws-events:ruleUnresolvedEnvironment")
        # For an encrypted queue CDK lets every rule of every account send.
        queue.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                actions=["sqs:SendMessage"],
                resources=[queue.queue_arn],
                conditions={"ArnEquals": {"aws:SourceArn": rule.rule_arn}},
            )
        )
    destroy = cdk.RemovalPolicy.DESTROY  # with the schedules in it
    scheduler.ScheduleGroup(
        changes_scope, "Group", schedule_group_name=machine, removal_policy=destroy
    )
    role = service_role(changes_scope, "Scheduler", "scheduler")
    documents.live.grant_invoke(role)
    documents.function.add_environment("DOCSTOKG_LOAD_SCHEDULE_ROLE", role.role_arn)
    schedules_arn = f"arn:{stack.partition}:scheduler:{stack.region}:{stack.account}"
    setting = [f"scheduler:{verb}Schedule" for verb in ("Create", "Get", "Update")]
    allow(documents.role, setting, f"{schedules_arn}:schedule/{machine}/*", stars=BY_NAMESPACE)
    documents.role.add_to_policy(
        iam.PolicyStatement(
            actions=["iam:PassRole"],
            resources=[role.role_arn],
            conditions={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        )
    )
