"""Executions of the load state machine."""

import json
import re
from collections.abc import Mapping
from typing import Any

from docstokg.adapters.aws.clients import AwsService, Warmed
from docstokg.adapters.aws.stepfunctions import region_of
from docstokg.errors import WrongAnswer
from docstokg.ports import LoadRun

TIME_S = 2.0
MOST_UNFINISHED = 100
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
OPEN = ("RUNNING", "PENDING_REDRIVE")


class StepFunctionsRuns(Warmed):
    """The LoadRuns port on one state machine."""

    def __init__(self, arn: str) -> None:
        """`arn`: of the machine itself, so that its latest definition runs."""
        self._arn = arn
        self._executions = arn.replace(":stateMachine:", ":execution:", 1)
        self._service = AwsService("stepfunctions", region_of(arn))

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Start an execution of this name; raise `Unavailable` if the service refuses it."""
        given = {"name": name, "input": json.dumps(arguments, ensure_ascii=False)}
        self._service.ask("start_execution", TIME_S, stateMachineArn=self._arn, **given)

    def find(self, name: str) -> LoadRun | None:
        """Return the execution of this name, or None."""
        if not NAME.fullmatch(name):
            return None
        execution = self._service.call(lambda client: self._described(client, name), TIME_S)
        if execution is None:
            return None
        try:
            arguments = json.loads(execution["input"])
            status = execution["status"]
        except (KeyError, ValueError) as broken:
            raise WrongAnswer(f"stepfunctions: {broken!r}") from broken
        return LoadRun(arguments, status not in OPEN, status not in (*OPEN, "SUCCEEDED"))

    def stop(self, name: str) -> None:
        """Stop the execution of this name; one that has ended is unchanged."""
        self._service.ask("stop_execution", TIME_S, executionArn=f"{self._executions}:{name}")

    def unfinished(self) -> Mapping[str, float]:
        """Return the start times of running executions, without those pending redrive."""
        which = {"statusFilter": "RUNNING", "maxResults": MOST_UNFINISHED}
        page = self._service.ask("list_executions", TIME_S, stateMachineArn=self._arn, **which)
        return {one["name"]: one["startDate"].timestamp() for one in page["executions"]}

    def _described(self, client: Any, name: str) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = client.describe_execution(
                executionArn=f"{self._executions}:{name}"
            )
        except client.exceptions.ExecutionDoesNotExist:
            return None
        return answer
