"""Step Functions load runs."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from docstokg.adapters.aws.clients import AwsService
from docstokg.adapters.aws.stepfunctions import region_of
from docstokg.contracts import Json
from docstokg.domain.deadline import Deadline
from docstokg.errors import WrongAnswer
from docstokg.ports import LoadRun

TIME_S = 2.0
MOST_UNFINISHED = 100
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
OPEN = ("RUNNING", "PENDING_REDRIVE")


class StepFunctionsRuns:
    """`LoadRuns` of one state machine; its schedule group has its name."""

    def __init__(self, arn: str, schedule_role: str | None = None) -> None:
        """`arn`: of the machine itself, so that its latest definition runs.

        `schedule_role`: of EventBridge Scheduler, for `call_later`.
        """
        self._arn, self._role, self._group = arn, schedule_role, arn.rpartition(":")[2]
        self._executions = arn.replace(":stateMachine:", ":execution:", 1)
        self._service = AwsService("stepfunctions", region_of(arn))
        self._scheduler = AwsService("scheduler", region_of(arn))

    def warm(self) -> None:
        """Create the clients."""
        self._service.warm()
        if self._role:
            self._scheduler.warm()

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Start an execution of this name; raise `Unavailable` if the service refuses it."""
        request = {"name": name, "input": json.dumps(arguments, ensure_ascii=False)}
        self._service.request(
            "start_execution", Deadline.after(TIME_S), stateMachineArn=self._arn, **request
        )

    def call_later(
        self, name: str, after_s: float, function: str, event: Mapping[str, Any]
    ) -> None:
        """Create or replace the one-time schedule of this name, which is deleted after the call."""
        at = datetime.now(UTC) + timedelta(seconds=after_s)
        target = {"Arn": function, "RoleArn": self._role, "Input": json.dumps(event)}
        schedule = {
            "Name": name,
            "GroupName": self._group,
            "ScheduleExpression": f"at({at:%Y-%m-%dT%H:%M:%S})",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "ActionAfterCompletion": "DELETE",
            "Target": target,
        }
        self._scheduler.call(lambda client: _set(client, schedule), Deadline.after(TIME_S))

    def scheduled(self, name: str) -> Mapping[str, Any] | None:
        """Return the event of the schedule of this name; None without one.

        Raise `WrongAnswer` for an unreadable one.
        """
        schedule = self._scheduler.call(
            lambda client: self._schedule(client, name), Deadline.after(TIME_S)
        )
        if schedule is None:
            return None
        try:
            return dict(json.loads(schedule["Target"]["Input"]))
        except (KeyError, ValueError, TypeError) as broken:
            raise WrongAnswer(f"scheduler: {broken!r}") from broken

    def find(self, name: str) -> LoadRun | None:
        """Return the execution of this name, None if unknown; raise `WrongAnswer` if unreadable."""
        if not NAME.fullmatch(name):
            return None
        execution = self._service.call(
            lambda client: self._described(client, name), Deadline.after(TIME_S)
        )
        if execution is None:
            return None
        try:
            arguments = json.loads(execution["input"])
            status = execution["status"]
        except (KeyError, ValueError) as broken:
            raise WrongAnswer(f"stepfunctions: {broken!r}") from broken
        return LoadRun(arguments, status not in OPEN, status not in (*OPEN, "SUCCEEDED"))

    def stop(self, name: str) -> None:
        """Stop the execution of this name; one that has ended is unchanged.

        Raise `Unavailable` for an unknown one.
        """
        self._service.request(
            "stop_execution", Deadline.after(TIME_S), executionArn=f"{self._executions}:{name}"
        )

    def unfinished(self) -> Mapping[str, float]:
        """Return the start times of at most 100 executions that run, not those pending redrive."""
        which = {"statusFilter": "RUNNING", "maxResults": MOST_UNFINISHED}
        page = self._service.request(
            "list_executions", Deadline.after(TIME_S), stateMachineArn=self._arn, **which
        )
        return {
            execution["name"]: execution["startDate"].timestamp()
            for execution in page["executions"]
        }

    def _schedule(self, client: Any, name: str) -> Json | None:
        try:
            answer: Json = client.get_schedule(Name=name, GroupName=self._group)
        except client.exceptions.ResourceNotFoundException:
            return None
        return answer

    def _described(self, client: Any, name: str) -> Json | None:
        try:
            answer: Json = client.describe_execution(executionArn=f"{self._executions}:{name}")
        except client.exceptions.ExecutionDoesNotExist:
            return None
        return answer


def _set(client: Any, schedule: Mapping[str, Any]) -> None:
    try:
        client.update_schedule(**schedule)
    except client.exceptions.ResourceNotFoundException:
        client.create_schedule(**schedule)
