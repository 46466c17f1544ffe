"""Trace consumer."""

import aws_cdk as cdk
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.base import Stack
from infra.functions import Function
from infra.nag import acknowledge
from infra.rights import service_role, use_key
from infra.tracequeue import LAST_STOP, TraceQueue, dead_letters

CLEAN_UP = {"job": "remove_expired_traces"}

BY_THE_QUEUE = "The queue itself moves a message to its dead letter queue after three tries."


def read_queue(scope: Construct, queue: sqs.Queue, function: Function, batch: int) -> None:
    """Make a function read a queue, at most twice at once."""
    acknowledge(function.live, BY_THE_QUEUE, "Serverless-LambdaEventSourceMappingDestination")
    function.live.add_event_source(
        sources.SqsEventSource(
            keyless(scope, "Source", queue),
            batch_size=batch,
            max_batching_window=cdk.Duration.seconds(5),
            report_batch_item_failures=True,
            max_concurrency=2,
        )
    )


def record_traces(stack: Stack, queue: TraceQueue, record: Function) -> sqs.Queue:
    """Create the consumer and the nightly clean-up; return the queue of its failures."""
    construct = Construct(stack, "Recording")
    read_queue(construct, queue.queue, record, 50)
    missed_ones = dead_letters(construct, "Missed", stack.key)
    acknowledge(missed_ones, LAST_STOP, "AwsSolutions-SQS3")
    role = service_role(construct, "Scheduler", "scheduler")
    missed = keyless(construct, "Letters", missed_ones)
    # Writing to the encrypted queue needs the key for both.
    for writer in (role, record.role):
        use_key(writer, stack.key, "sqs", ["kms:Decrypt", "kms:GenerateDataKey"])
    # Lambda, not the schedule, sees the asynchronous function fail.
    record.live.configure_async_invoke(
        on_failure=destinations.SqsDestination(missed),
        retry_attempts=2,
        max_event_age=cdk.Duration.hours(6),
    )
    scheduler.Schedule(
        construct,
        "CleanUp",
        description="Remove retrieval traces older than DOCSTOKG_TRACE_DAYS",
        schedule=scheduler.ScheduleExpression.cron(hour="3", minute="17"),
        target=targets.LambdaInvoke(
            record.live,
            input=scheduler.ScheduleTargetInput.from_object(CLEAN_UP),
            retry_attempts=2,
            dead_letter_queue=missed,
            role=role,
        ),
    )
    return missed_ones


def keyless(scope: Construct, construct_id: str, queue: sqs.Queue) -> sqs.IQueue:
    """Return the queue without its key; see `use_key`."""
    return sqs.Queue.from_queue_arn(scope, construct_id, queue.queue_arn)
