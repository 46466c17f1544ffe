"""A scheduled question."""

import base64
import json

import aws_cdk as cdk
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from infra.observability import Observability
from infra.settings import Canary
from infra.workflow import Workflow

ASKER = "canary"
REQUEST_ID = "<aws.scheduler.execution-id>"
MISSED = 3


def keep_asking(
    scope: Construct, canary: Canary, workflow: Workflow, observability: Observability
) -> None:
    """Create the schedule, its role, and an alarm after three questions without a passage."""
    scheduler.Schedule(
        Construct(scope, "Canary"),
        "Every",
        description="Ask one question; the alarm `unanswered` hears when nothing is found",
        schedule=scheduler.ScheduleExpression.rate(cdk.Duration.minutes(canary.minutes)),
        # The target for state machines accepts no alias.
        target=targets.Universal(
            service="sfn",
            action="startExecution",
            input=scheduler.ScheduleTargetInput.from_object(
                {
                    "StateMachineArn": workflow.alias_arn,
                    "Input": json.dumps(envelope_of(canary)),
                }
            ),
            policy_statements=[workflow.starting("states:StartExecution")],
            retry_attempts=0,
        ),
    )
    successes = observability.service("rag_found_requests_total", minutes=canary.minutes)
    description = (
        f"No passage was found for anybody, although one asks every {canary.minutes} minutes."
    )
    # No passages and no alarm before the first load.
    observability.alarm(
        "Unanswered", successes, 1, MISSED, description, under=True, on_silence=True
    )


def envelope_of(canary: Canary) -> dict[str, object]:
    """Return the workflow's input for the question, with the keys of the gateway's template."""
    body = {"query": canary.question, "namespace": canary.namespace}
    return {
        "route": "search",
        "request_id": REQUEST_ID,
        "caller": {"sub": ASKER, "namespaces": [canary.namespace], "groups": []},
        "body_b64": base64.b64encode(json.dumps(body).encode()).decode(),
    }
