"""Retrieval traces leave the request path by a queue; their writer has its own credential."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.functions import Function
from infra.nag import acknowledge

LAST_STOP = "This is a dead letter queue: an alarm tells a person, nothing reads on."
CLEAN_UP = {"job": "remove_expired_traces"}


class TraceQueue(Construct):
    """The queue and what could not be written after three tries."""

    def __init__(self, scope: Construct, construct_id: str, *, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self.dead = sqs.Queue(
            self,
            "Dead",
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(4),
            # Six times the consumer's timeout: a slow write must not be delivered twice meanwhile.
            visibility_timeout=cdk.Duration.seconds(180),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead, max_receive_count=3),
        )
        acknowledge(self.dead, {"Serverless-SQSRedrivePolicy": LAST_STOP})


class TraceRecording(Construct):
    """The consumer, and the nightly job that removes traces past their time."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queue: TraceQueue,
        record: Function,
        key: kms.IKey,
    ) -> None:
        super().__init__(scope, construct_id)
        acknowledge(
            record.live,
            {
                "Serverless-LambdaEventSourceMappingDestination": "The queue itself moves a "
                "message to its dead letter queue after three tries."
            },
        )
        record.live.add_event_source(
            sources.SqsEventSource(
                queue.queue,
                batch_size=50,
                max_batching_window=cdk.Duration.seconds(5),
                report_batch_item_failures=True,
                max_concurrency=2,
            )
        )
        self.missed = sqs.Queue(
            self,
            "Missed",
            encryption=sqs.QueueEncryption.KMS,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        acknowledge(
            self.missed,
            {"Serverless-SQSRedrivePolicy": LAST_STOP, "AwsSolutions-SQS3": LAST_STOP},
        )
        role = iam.Role(
            self,
            "Scheduler",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}},
            ),
        )
        scheduler.Schedule(
            self,
            "CleanUp",
            description="Remove retrieval traces older than DOCSTOKG_TRACE_DAYS",
            schedule=scheduler.ScheduleExpression.cron(hour="3", minute="17"),
            target=targets.LambdaInvoke(
                record.live,
                input=scheduler.ScheduleTargetInput.from_object(CLEAN_UP),
                retry_attempts=2,
                dead_letter_queue=self.missed,
                role=role,
            ),
            key=key,
        )
