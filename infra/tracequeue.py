"""Trace queue."""

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.base import Stack
from infra.nag import acknowledge
from infra.rights import allow, use_key

LAST_STOP = "This is a dead letter queue: an alarm tells a person, nothing reads on."


def _queue(scope: Construct, name: str, key: kms.IKey, *, days: int, **options: Any) -> sqs.Queue:
    options |= {"encryption_master_key": key, "retention_period": cdk.Duration.days(days)}
    return sqs.Queue(scope, name, enforce_ssl=True, **options)


def dead_letters(scope: Construct, construct_id: str, key: kms.IKey) -> sqs.Queue:
    """Return a dead letter queue, encrypted with `key`, kept for two weeks."""
    queue = _queue(scope, construct_id, key, days=14)
    acknowledge(queue, LAST_STOP, "Serverless-SQSRedrivePolicy")
    return queue


def queue_before(scope: Construct, name: str, key: kms.IKey, dead: sqs.Queue) -> sqs.Queue:
    """Return a queue whose messages go to `dead` after three tries."""
    return _queue(
        scope,
        name,
        key,
        days=4,
        # Six times the consumer's timeout, to avoid duplicate deliveries.
        visibility_timeout=cdk.Duration.seconds(180),
        dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=3),
    )


class TraceQueue(Construct):
    """The queue and its dead letters."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack, "Traces")
        self._key = stack.key
        self.dead = dead_letters(self, "Dead", stack.key)
        self.queue = queue_before(self, "Queue", stack.key, self.dead)

    def let_send(self, role: iam.Role) -> None:
        """Allow `role` to put traces into the queue."""
        allow(role, ["sqs:SendMessage"], self.queue.queue_arn)
        use_key(role, self._key, "sqs", ["kms:Decrypt", "kms:GenerateDataKey"])
