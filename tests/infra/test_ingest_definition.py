"""`ingest.asl.json` as a Standard machine: AWS's linter takes it, no state's time ends first, and
a small account has room for it beside questions."""

import json
import re
from dataclasses import replace

import pytest

from infra.readiness import obstacles
from infra.settings import ENVIRONMENTS
from infra.specs import STAGES
from tests.infra.conftest import ROOT, Template
from tests.workflow.test_ingest_machine import ASL, every_task, retried

DEFINITION = ROOT / "statemachine" / "ingest.asl.json"
MOST_BYTES = 1_000_000


def test_the_linter_of_cloudformation_takes_the_definition() -> None:
    from cfnlint.api import ManualArgs, lint

    text = re.sub(
        r"\$\{(\w+)Function\}",
        r"arn:aws:lambda:eu-central-1:123456789012:function:\1:1",
        DEFINITION.read_text("utf-8"),
    )
    assert len(text.encode()) < MOST_BYTES

    def messages_of(body: str) -> list[str]:
        properties = {
            "RoleArn": "arn:aws:iam::123456789012:role/r",
            "StateMachineType": "STANDARD",
            "DefinitionString": body,
        }
        machine = {"Type": "AWS::StepFunctions::StateMachine", "Properties": properties}
        template = json.dumps({"Resources": {"Machine": machine}})
        config = ManualArgs(regions=["eu-central-1"])
        return [f"{m.rule.id} {m.message}" for m in lint(template, config=config)]

    # Its schema of states knows no JSONata expression for a number; the service does.
    (warning,) = messages_of(text)
    assert warning.startswith("E3601") and warning.endswith("'States/Write/MaxConcurrency'")
    broken = messages_of(text.replace('"ItemBatcher"', '"ItemBatches"', 1))
    assert len(broken) > 1


def test_a_function_ends_before_its_state_times_out() -> None:
    limits = {spec.substitution: spec.timeout_s for spec in STAGES}
    called = set()
    for name, task in every_task(ASL["States"]).items():
        if name == "Lost":  # no function: the machine writes an object itself
            continue
        function = task["Arguments"]["FunctionName"].removeprefix("${").removesuffix("}")
        assert limits[function] < task["TimeoutSeconds"], name
        called.add(function)
    assert called == set(limits)


@pytest.mark.xdist_group("synth")
@pytest.mark.timeout(900)
def test_loads_use_at_most_half_of_free_concurrency(template: Template) -> None:
    target = ENVIRONMENTS[template.name]
    machines = template.all("AWS::StepFunctions::StateMachine").items()
    (text,) = (m["DefinitionString"] for name, m in machines if name.startswith("Ingestion"))
    states = json.loads(text)["States"]
    share = target.loading // target.loads
    assert states["Read"]["MaxConcurrency"] <= max(1, share)
    assert states["Compute"]["MaxConcurrency"] <= max(1, share // 2)
    assert 2 * states["Compute"]["MaxConcurrency"] <= target.loading
    assert target.loading <= (target.function_quota - target.reserved) // 2
    # Nothing is reserved in a new account, so its quota of ten stands in nobody's way.
    new = replace(ENVIRONMENTS["dev"], function_quota=10, concurrency={})
    assert not [obstacle for obstacle in obstacles(new) if "quota" in obstacle]


def test_each_load_task_waits_out_a_full_account() -> None:
    for name, task in retried(every_task(ASL["States"])).items():
        throttled = "Lambda.TooManyRequestsException"
        (entry,) = (e for e in task["Retry"] if throttled in e["ErrorEquals"])
        assert entry["MaxAttempts"] * entry["MaxDelaySeconds"] / 2 >= 45 * 60, name
