"""Step Functions workflow."""

from docstokg.adapters.aws.clients import AwsService
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Timeout, Unavailable, WrongAnswer


class StepFunctionsWorkflow:
    """A `Workflow` on Express executions."""

    def __init__(self, arn: str, longest_s: float) -> None:
        self._arn, self._longest_s = arn, longest_s
        self._service = AwsService("stepfunctions", region_of(arn), read_timeout_s=longest_s)

    def run(self, envelope: Envelope) -> Reply:
        """Run one execution and return its reply.

        Raise `Timeout`, `Unavailable` or `WrongAnswer` on failure.
        """
        arguments = {"stateMachineArn": self._arn, "input": envelope.model_dump_json()}
        execution = self._service.request(
            "start_sync_execution", Deadline.after(self._longest_s), **arguments
        )
        if (status := execution.get("status")) == "TIMED_OUT":
            raise Timeout("the workflow ran out of time")
        if status != "SUCCEEDED":
            # The cause may contain a stack trace, which stays in the execution's log.
            raise (Unavailable if status else WrongAnswer)("the workflow failed")
        return reply_of(execution.get("output", ""), "workflow")


def reply_of(output: str | bytes, whose: str) -> Reply:
    """Parse JSON output of an execution or function, named `whose`; raise `WrongAnswer`."""
    try:
        return Reply.model_validate_json(output)
    except ValueError as exc:
        raise WrongAnswer(f"the {whose} gave no reply") from exc


def region_of(arn: str) -> str:
    """Return the region of `arn:PARTITION:SERVICE:REGION:ACCOUNT:...`.

    Raise `Misconfigured` for others.
    """
    parts = arn.split(":")
    if len(parts) < 6 or parts[0] != "arn":
        raise Misconfigured(f"{arn!r} is no ARN")
    return parts[3]
