"""A question asked every few minutes, so that silence is heard of before a user meets it.

The schedule starts the state machine at its alias, as the gateway does: everything behind the
gateway answers it. The gateway's own failures are what `api5xx` counts.
"""

from __future__ import annotations

import base64
import json

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.observability import Observability
from infra.settings import Canary
from infra.workflow import Workflow

ASKER = "canary"
REQUEST_ID = "<aws.scheduler.execution-id>"
MISSED = 3


class Asking(Construct):
    """The schedule, its role, and the alarm on no passage found for anybody."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        canary: Canary,
        workflow: Workflow,
        observability: Observability,
    ) -> None:
        super().__init__(scope, construct_id)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "scheduler.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": cdk.Stack.of(self).account}},
            ),
        )
        role.add_to_policy(workflow.starting("states:StartExecution"))
        scheduler.CfnSchedule(
            self,
            "Every",
            description="Ask one question; the alarm `unanswered` hears when nothing is found",
            schedule_expression=f"rate({canary.minutes} minutes)",
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                # The universal target: the one for state machines takes no alias.
                arn="arn:aws:scheduler:::aws-sdk:sfn:startExecution",
                role_arn=role.role_arn,
                input=cdk.Stack.of(self).to_json_string(
                    {
                        "StateMachineArn": workflow.alias_arn,
                        "Input": json.dumps(envelope_of(canary)),
                    }
                ),
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(maximum_retry_attempts=0),
            ),
        )
        observability.alarm(
            "Unanswered",
            observability.service("rag_budget_chunks_used", period_minutes=canary.minutes),
            1,
            periods=MISSED,
            under=True,
            silence_is_bad=True,
            say=f"No passage was found for anybody, although one asks every {canary.minutes} "
            "minutes.",
        )


def envelope_of(canary: Canary) -> dict[str, object]:
    """The envelope of the question, as the gateway's template would write it."""
    body = {"query": canary.question, "namespace": canary.namespace}
    return {
        "route": "search",
        "request_id": REQUEST_ID,
        "caller": {"sub": ASKER, "namespaces": [canary.namespace], "groups": []},
        "body_b64": base64.b64encode(json.dumps(body).encode()).decode(),
    }
