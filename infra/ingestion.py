"""State machine of loads."""

import json
from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from infra.base import Stack
from infra.functions import Function
from infra.intake import ANY_OBJECT, INBOX, RUNS, SOURCES, Intake
from infra.observability import RUNNING, Observability
from infra.removal import log_group
from infra.rights import add, allow
from infra.specs import ROOT
from infra.workflow import state_machine, substitutions

ASL = ROOT / "statemachine" / "ingest.asl.json"
LATE_H = 6
WATCH_LOADS = {"job": "watch_loads"}
WATCH_SHARDS = {"job": "watch_shards"}
FOLLOW = ["states:DescribeExecution", "states:StopExecution"]
KEPT_BACK = (
    "A load kept documents that were deleted below sources/, as they are over a fifth of their "
    'namespace. To remove them: make index-job JOB="agree RUN"; RUN is the name of the last '
    "execution of the loading machine: docs/operations.md, deleted documents."
)
CHILDREN = (
    "A map's children are executions of this very machine under names that Step Functions makes."
)


class Ingestion(Construct):
    """A standard machine, logged without data."""

    def __init__(self, stack: Stack, functions: Mapping[str, Function], intake: Intake) -> None:
        super().__init__(stack, "Ingestion")
        stages = {f.spec.substitution: f for f in functions.values() if f.spec.loads}
        used = [stages[name] for name in substitutions(ASL)]
        self.name = name = f"docstokg-{stack.target.name}-ingest"
        definition = json.loads(ASL.read_text("utf-8"))
        # Each shard has two tasks at once: encoding and names.
        for state, tasks in (("Read", 1), ("Compute", 2)):
            limit = definition["States"][state]["MaxConcurrency"]
            share = max(1, stack.target.loading // stack.target.loads // tasks)
            definition["States"][state]["MaxConcurrency"] = min(limit, share)
        log = log_group(self, "Logs", stack, f"/aws/vendedlogs/states/{name}")
        standard = stepfunctions.StateMachineType.STANDARD
        self.machine, self.version = state_machine(self, name, definition, used, log, standard)
        # Composed to avoid a circular reference.
        states = f"arn:aws:states:{stack.region}:{stack.account}"
        self.arn = f"{states}:stateMachine:{name}"
        self._runs = f"{states}:execution:{name}:*"
        # A distributed map starts, watches and redrives children.
        role, shards = self.machine.role, f"{states}:execution:{name}/*:*"
        allow(role, ["states:StartExecution"], self.arn)
        allow(role, FOLLOW, self._runs, shards, stars=CHILDREN)
        allow(role, ["states:RedriveExecution"], shards, stars=CHILDREN)
        lists = (SOURCES, INBOX, RUNS)
        rights = intake.rights(reads=(RUNS,), writes=(RUNS,), parts=(RUNS,), lists=lists)
        add(role, rights, ANY_OBJECT)

    def let_start(self, function: Function) -> None:
        """Allow the documents function to start runs and read their state."""
        function.function.add_environment("DOCSTOKG_INGEST_MACHINE_ARN", self.arn)
        allow(function.role, ["states:ListExecutions", "states:StartExecution"], self.arn)
        allow(function.role, FOLLOW, self._runs, stars=RUNS_OF)

    def watch(self, observability: Observability, documents: Function) -> None:
        """Add alarms for failed and overlong loads, and for deletions that need agreement."""
        machine = self.machine
        endings = {
            "failed": machine.metric_failed(),
            "timed_out": machine.metric_timed_out(),
            "aborted": machine.metric_aborted(),
        }
        failures = cloudwatch.MathExpression(expression=" + ".join(endings), using_metrics=endings)
        description = "A load failed: docs/operations.md; run it again under the same name."
        observability.alarm("IngestFailed", failures, 0, 1, description)
        given_up = observability.service("ingest_given_up_total")
        description = (
            "A load of changed sources/ failed four times; it is tried again after a change."
        )
        observability.alarm("SourcesFailed", given_up, 0, 1, description)
        kept_back = observability.service("ingest_kept_back_total")
        observability.alarm("KeptBack", kept_back, 0, 1, KEPT_BACK)
        longest = observability.service(RUNNING, "Maximum")
        description = f"A load has been running for more than {LATE_H} hours."
        observability.alarm("IngestLate", longest, LATE_H * 3600, 1, description)
        description = "Measure how long the oldest load has been running; `ingest-late` hears"
        self.every("rate(5 minutes)", "Watch", documents, WATCH_LOADS, description)

    def watch_shards(self, observability: Observability, close: Function) -> None:
        """Alarm while the index has other shards or replicas than configured."""
        description = "Compare the shards of the index with the settings; `resize-due` hears"
        self.every("rate(1 hour)", "Shards", close, WATCH_SHARDS, description)
        due = observability.service("index_resize_due", "Maximum", minutes=60)
        description = "Shards or replicas are not as configured: make index-job JOB=resize."
        observability.alarm("ResizeDue", due, 0, 2, description)

    def every(
        self, when: str, name: str, function: Function, event: dict[str, str], description: str
    ) -> None:
        """Call a function with `event` by the schedule expression `when`."""
        scheduler.Schedule(
            self,
            name,
            description=description,
            schedule=scheduler.ScheduleExpression.expression(when),
            target=targets.LambdaInvoke(
                function.live,
                input=scheduler.ScheduleTargetInput.from_object(event),
                retry_attempts=0,
            ),
        )


RUNS_OF = "A run is named by its job, which only the request that begins it names."
