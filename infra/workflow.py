"""Answer state machine."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from docstokg.contracts import Json, compact_json
from infra.base import Stack
from infra.functions import Function
from infra.nag import acknowledge_stars
from infra.removal import RETAIN, log_group
from infra.rights import allow
from infra.specs import ROOT

ASL = ROOT / "statemachine" / "answer.asl.json"
ALIAS = "live"


def substitutions(path: Path = ASL) -> tuple[str, ...]:
    """Return the names `...Function` in `${}` of the file, sorted, each once."""
    return tuple(sorted(set(re.findall(r"\$\{(\w+Function)\}", path.read_text("utf-8")))))


def patient(definition: Json, seconds: int) -> Json:
    """Return the definition with `seconds` added to each `TimeoutSeconds` of its states.

    Expressions of the time until the deadline, with `$millis()`, are unchanged.
    """
    states = dict(definition["States"])
    for name, state in states.items():
        limit = state.get("TimeoutSeconds")
        if isinstance(limit, int):
            states[name] = state | {"TimeoutSeconds": limit + seconds}
        elif limit is not None and "$millis()" not in limit:
            longer = limit.replace(" %}", f" + {seconds} %}}")
            states[name] = state | {"TimeoutSeconds": longer}
    return definition | {"States": states}


class Workflow(Construct):
    """An express machine; callers get its alias only."""

    def __init__(self, stack: Stack, functions: dict[str, Function]) -> None:
        super().__init__(stack, "Workflow")
        self._environment = environment = stack.target
        definition = patient(json.loads(ASL.read_text("utf-8")), environment.cold_start_s)
        by_substitution = {f.spec.substitution: f for f in functions.values()}
        used = [by_substitution[name] for name in substitutions()]
        name = f"docstokg-{environment.name}"
        # This prefix keeps the account's log resource policy short.
        self.logs = log_group(self, "Logs", stack, f"/aws/vendedlogs/states/{name}")
        self.machine, self.version = state_machine(self, name, definition, used, self.logs)
        self.alias_arn = f"{self.machine.state_machine_arn}:{ALIAS}"

    def let_start(self, function: Function) -> None:
        """Allow a function to run executions through the alias, like the gateway."""
        function.function.add_environment("DOCSTOKG_WORKFLOW_ARN", self.alias_arn)
        function.role.add_to_policy(self.starting())

    def starting(self, action: str = "states:StartSyncExecution") -> iam.PolicyStatement:
        """Return the right to run executions through the alias.

        Step Functions checks the unqualified ARN (its guide: auth-version-alias), hence the
        condition.
        """
        return iam.PolicyStatement(
            actions=[action],
            resources=[self.machine.state_machine_arn],
            conditions={"ForAnyValue:StringEquals": {"states:StateMachineQualifier": [ALIAS]}},
        )

    def shift_traffic(self, alarms: Sequence[cloudwatch.Alarm]) -> None:
        """Point the alias at the new version gradually; alarms roll it back."""
        gradual = self._environment.gradual
        step_by_step = gradual.kind != "ALL_AT_ONCE"
        self.alias = stepfunctions.CfnStateMachineAlias(
            self,
            "Live",
            name=ALIAS,
            deployment_preference={
                "stateMachineVersionArn": self.version.attr_arn,
                "type": gradual.kind,
                "percentage": gradual.percentage if step_by_step else None,
                "interval": gradual.interval_minutes if step_by_step else None,
                "alarms": [alarm.alarm_name for alarm in alarms],
            },
        )


def state_machine(
    scope: Construct,
    name: str,
    definition: Json,
    used: Sequence[Function],
    log: logs.LogGroup,
    kind: stepfunctions.StateMachineType = stepfunctions.StateMachineType.EXPRESS,
) -> tuple[stepfunctions.StateMachine, stepfunctions.CfnStateMachineVersion]:
    """Return a machine and its version; events are logged without data."""
    text = compact_json(definition)
    machine = stepfunctions.StateMachine(
        scope,
        "Machine",
        state_machine_name=name,
        state_machine_type=kind,
        definition_body=stepfunctions.DefinitionBody.from_string(text),
        definition_substitutions={
            f.spec.substitution: f.function.current_version.function_arn for f in used
        },
        tracing_enabled=True,
        logs=stepfunctions.LogOptions(
            destination=log, level=stepfunctions.LogLevel.ALL, include_execution_data=False
        ),
    )
    for function in used:
        # Its older versions call older versions.
        versions = f"{function.function.function_arn}:*"
        allow(machine.role, ["lambda:InvokeFunction"], versions, stars=OLDER)
    acknowledge_stars(machine, NO_RESOURCE, "*")
    resource = machine.node.default_child
    assert isinstance(resource, stepfunctions.CfnStateMachine)
    # E3601: the linter's schema lacks JSONata expressions for numbers. tests/infra/test_template.py
    # lints this resource without the exception.
    resource.add_metadata("cfn-lint", {"config": {"ignore_checks": ["E3601"]}})
    version = stepfunctions.CfnStateMachineVersion(
        scope,
        "Version",
        state_machine_arn=machine.state_machine_arn,
        state_machine_revision_id=resource.attr_state_machine_revision_id,
    )
    # Rollbacks and active runs use older versions.
    version.apply_removal_policy(RETAIN)
    return machine, version


OLDER = (
    "Every published version of that one function: while traffic shifts, and after a rollback, "
    "the older state machine version invokes the older function versions."
)
NO_RESOURCE = "X-Ray's put actions and the log delivery's set-up actions have no resource."
