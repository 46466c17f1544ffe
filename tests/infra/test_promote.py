"""Traffic goes where it was sent, by the API's own model, and not while an alarm fires."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.promote import LOOK_EVERY_S, promote, watch, weights
from infra.specs import ROLLBACK_ALARMS
from tests.infra.conftest import stubbed

MACHINE = "arn:aws:states:eu-central-1:111122223333:stateMachine:docstokg-prod"
OLD, NEW = f"{MACHINE}:1", f"{MACHINE}:2"


@given(st.integers(1, 99))
def test_the_newest_version_gets_its_share_of_100(percent: int) -> None:
    newest, before = weights([NEW, OLD], percent)
    assert newest == {"stateMachineVersionArn": NEW, "weight": percent}
    assert before == {"stateMachineVersionArn": OLD, "weight": 100 - percent}


def alarm(name: str, state: str) -> dict[str, str]:
    return {"AlarmName": name, "StateValue": state}


@pytest.fixture
def stubs() -> Iterator[tuple[Any, Any]]:
    """The real clients with stubbed answers: every call is checked against the service's model."""
    with stubbed("stepfunctions") as states, stubbed("cloudwatch") as cloudwatch:
        yield states, cloudwatch


def then(states: Any) -> None:
    machine = {
        "stateMachineArn": MACHINE,
        "name": "docstokg-prod",
        "type": "EXPRESS",
        "creationDate": 0,
    }
    states.stub.add_response("list_state_machines", {"stateMachines": [machine]}, {})
    states.stub.add_response(
        "list_state_machine_versions",
        {
            "stateMachineVersions": [
                {"stateMachineVersionArn": arn, "creationDate": 0} for arn in (NEW, OLD)
            ]
        },
        {"stateMachineArn": MACHINE, "maxResults": 10},
    )


def test_going_back_asks_no_alarm(stubs: tuple[Any, Any]) -> None:
    states, cloudwatch = stubs
    then(states)
    states.stub.add_response("update_state_machine_alias", {"updateDate": 0})
    assert promote("prod", 0, states, cloudwatch) == weights([NEW, OLD], 0)


def test_alarms_are_asked_by_their_template_names(stubs: tuple[Any, Any], aws: Any) -> None:
    """CloudWatch's own behaviour, by moto: unset, fine, firing, and one that was never made."""
    states, cloudwatch = stubs[0], aws.client("cloudwatch")

    def make(end: str) -> None:
        cloudwatch.put_metric_alarm(
            AlarmName=f"docstokg-prod-{end}",
            MetricName="m",
            Namespace="DocsToKG",
            Statistic="Sum",
            Period=300,
            EvaluationPeriods=2,
            Threshold=1,
            ComparisonOperator="GreaterThanThreshold",
        )

    first, *others = ROLLBACK_ALARMS
    for end in others:
        make(end)
    with pytest.raises(ValueError, match=f"missing: docstokg-prod-{first}$"):
        promote("prod", 10, states, cloudwatch)
    make(first)
    cloudwatch.set_alarm_state(
        AlarmName=f"docstokg-prod-{others[0]}", StateValue="ALARM", StateReason="x"
    )
    with pytest.raises(ValueError, match=f"missing: docstokg-prod-{others[0]}$"):
        promote("prod", 10, states, cloudwatch)
    cloudwatch.set_alarm_state(
        AlarmName=f"docstokg-prod-{others[0]}", StateValue="OK", StateReason="x"
    )
    then(states)
    states.stub.add_response("update_state_machine_alias", {"updateDate": 0})
    assert promote("prod", 10, states, cloudwatch) == weights([NEW, OLD], 10)


def looked(cloudwatch: Any, state: str) -> None:
    names = [f"docstokg-prod-{name}" for name in ROLLBACK_ALARMS]
    alarms = {"MetricAlarms": [alarm(name, state) for name in names]}
    cloudwatch.stub.add_response("describe_alarms", alarms, {"AlarmNames": names})


def test_an_alarm_during_the_watch_reverts_traffic(
    stubs: tuple[Any, Any],
) -> None:
    states, cloudwatch = stubs
    for state in ("OK", "OK", "ALARM"):
        looked(cloudwatch, state)
    then(states)
    states.stub.add_response(
        "update_state_machine_alias",
        {"updateDate": 0},
        {"stateMachineAliasArn": f"{MACHINE}:live", "routingConfiguration": weights([NEW, OLD], 0)},
    )
    waited: list[float] = []
    bad = watch("prod", 10, states, cloudwatch, waited.append)
    assert len(bad) == len(ROLLBACK_ALARMS)
    assert waited == [LOOK_EVERY_S] * 3
