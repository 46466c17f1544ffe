"""`ingest.asl.json`: no state's time ends first, and a small account has room for questions too."""

import json
from dataclasses import replace

from infra.readiness import obstacles
from infra.settings import ENVIRONMENTS
from infra.specs import STAGES
from tests.infra.conftest import Template
from tests.workflow.test_ingest_machine import ASL, every_task, retried


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


def test_loads_use_at_most_half_of_free_concurrency(template: Template) -> None:
    target = template.ours
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
