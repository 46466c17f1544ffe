"""A deploy is taken back while its traffic still shifts, also for errors that a branch caught."""

import json
import re
from typing import Any

from infra.specs import ROLLBACK_ALARMS
from tests.infra.conftest import ROOT, Template

DECIDES_S = 180
"""What CloudWatch may take from the end of a period until the alarm changes, generously."""


def seconds_to_fire(alarm: dict[str, Any]) -> int:
    metrics = alarm.get("Metrics", [{"MetricStat": {"Period": alarm.get("Period")}}])
    periods = {m["MetricStat"]["Period"] for m in metrics if "MetricStat" in m}
    assert len(periods) == 1, alarm["AlarmName"]
    return int(periods.pop()) * int(alarm["EvaluationPeriods"]) + DECIDES_S


def test_alarms_fire_before_the_first_step_is_over(template: Template) -> None:
    alias = template.only("AWS::StepFunctions::StateMachineAlias")["DeploymentPreference"]
    assert len(alias["Alarms"]) == len(ROLLBACK_ALARMS)
    slowest = max(seconds_to_fire(template.alarms[name]) for name in ROLLBACK_ALARMS)
    if alias["Type"] == "ALL_AT_ONCE":
        assert template.name == "dev"
    else:
        # As long again for a fault that begins after the first requests.
        assert alias["Interval"] * 60 >= 2 * slowest


def test_caught_crashes_and_refusals_are_counted_apart(template: Template) -> None:
    """`States.ALL` is caught, so the execution succeeds and no metric of the service tells."""
    states = json.loads((ROOT / "statemachine" / "answer.asl.json").read_text("utf-8"))["States"]
    (log,) = (n for n in template.all("AWS::Logs::LogGroup") if n.startswith("Workflow"))
    filters = {
        re.findall(r'name = "(\w+)"', properties["FilterPattern"])[0]: properties
        for properties in template.all("AWS::Logs::MetricFilter").values()
        if properties["LogGroupName"] == {"Ref": log}
    }
    caught = {c["Next"] for state in states.values() for c in state.get("Catch", ())}
    assert caught >= filters.keys() == {"Crashed", "Throttled"}
    for name, properties in filters.items():
        assert states[name]["Type"] == "Pass"
        assert properties["FilterPattern"] == (
            f'{{ $.type = "PassStateEntered" && $.details.name = "{name}" }}'
        )
        (metric,) = properties["MetricTransformations"]
        assert template.ours.name in metric["MetricName"]
        alarmed = [
            alarm
            for alarm, properties in template.alarms.items()
            if (properties.get("MetricName"), properties.get("Namespace"))
            == (metric["MetricName"], metric["MetricNamespace"])
        ]
        assert alarmed == ["workflow-crashed"] * (name == "Crashed")
