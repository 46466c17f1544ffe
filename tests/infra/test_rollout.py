"""A deploy whose smoke test fails is taken back: Step Functions by the emulator."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from infra import rollout
from tests.infra.conftest import stubbed
from tests.infra.emulator.account import ACCOUNT, REGION, Account, run_live

pytestmark = [pytest.mark.xdist_group("emulator"), pytest.mark.timeout(300)]
MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:docstokg-prod"
ALIAS = f"{MACHINE}:live"
OLD, NEW = f"{MACHINE}:1", f"{MACHINE}:2"

CLIENT = f"""
import json, sys, time
import boto3
from botocore.config import Config
from tests.infra.emulator.account import run_live
states = boto3.client("stepfunctions", config=Config(inject_host_prefix=False))
def route(*shares):
    routes = [{{"stateMachineVersionArn": f"{MACHINE}:{{n}}", "weight": w}} for n, w in shares]
    states.update_state_machine_alias(stateMachineAliasArn="{ALIAS}", routingConfiguration=routes)
def answer():
    return json.loads(run_live(states, "{ALIAS}")["output"])
"""
PUBLISH = f"""
machine = states.describe_state_machine(stateMachineArn="{MACHINE}")
newer = machine["definition"].replace("old", "new")
states.update_state_machine(stateMachineArn="{MACHINE}", definition=newer)
states.publish_state_machine_version(stateMachineArn="{MACHINE}")
"""
# As CloudFormation does it; `run_live` executes the version with the larger share.
GRADUAL = f"""{CLIENT}{PUBLISH}
route((2, 60), (1, 40))
for _ in range(int(sys.argv[1])):
    time.sleep(0.1)
    now = states.describe_state_machine_alias(stateMachineAliasArn="{ALIAS}")
    if len(now["routingConfiguration"]) == 1:
        sys.exit("cancelled")
route((2, 100))
"""
AT_ONCE = f"{CLIENT}{PUBLISH}route((2, 100))"
SMOKE = f"""{CLIENT}
with open(sys.argv[2], "a") as told:
    print(answer(), sys.argv[3:], file=told)
sys.exit(answer() != sys.argv[1])
"""


@pytest.fixture
def states(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Step Functions with one machine, whose version 1 has all traffic of the alias."""
    account = Account(tmp_path / "account")
    for name, value in account.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(rollout, "LOOK_EVERY_S", 0.1)
    client = account.client("stepfunctions")
    definition = {"StartAt": "A", "States": {"A": {"Type": "Pass", "Result": "old", "End": True}}}
    role = f"arn:aws:iam::{ACCOUNT}:role/any"
    client.create_state_machine(
        name="docstokg-prod", definition=json.dumps(definition), roleArn=role, type="EXPRESS"
    )
    client.publish_state_machine_version(stateMachineArn=MACHINE)
    client.create_state_machine_alias(
        name="live", routingConfiguration=[{"stateMachineVersionArn": OLD, "weight": 100}]
    )
    yield client
    account.close()


def rolled_out(
    states: Any, told: Any, deploy: str, expected: str, cancelled: bool
) -> tuple[str, list[str], str]:
    """The exit message, what the smoke tests saw, and the version with all traffic."""
    with stubbed("cloudformation") as stacks:
        if cancelled:
            stacks.stub.add_response("cancel_update_stack", {}, {"StackName": "docstokg-prod"})
        smoke = [sys.executable, "-c", SMOKE, expected, str(told)]
        message = ""
        try:
            rollout.rollout("prod", [sys.executable, "-c", deploy, "300"], smoke, states, stacks)
        except SystemExit as ended:
            message = str(ended)
    ((version, share),) = (
        (route["stateMachineVersionArn"], route["weight"])
        for route in states.describe_state_machine_alias(stateMachineAliasArn=ALIAS)[
            "routingConfiguration"
        ]
    )
    assert share == 100
    return message, told.read_text().splitlines(), version


def test_a_version_that_fails_its_smoke_test_is_left_without_traffic(
    states: Any, tmp_path: Any
) -> None:
    message, saw, version = rolled_out(states, tmp_path / "told", GRADUAL, "old", cancelled=True)
    assert "smoke test of prod failed" in message
    assert saw == ["new ['--share', '60']"]
    assert version == OLD
    assert json.loads(run_live(states, ALIAS)["output"]) == "old"


def test_a_version_that_passes_gets_all_traffic(states: Any, tmp_path: Any) -> None:
    deploy = GRADUAL.replace("int(sys.argv[1])", "30")
    message, saw, version = rolled_out(states, tmp_path / "told", deploy, "new", cancelled=False)
    assert (message, saw, version) == ("", ["new ['--share', '60']"], NEW)


def test_without_a_shift_the_smoke_test_follows_the_deploy(states: Any, tmp_path: Any) -> None:
    message, saw, version = rolled_out(states, tmp_path / "told", AT_ONCE, "old", cancelled=False)
    assert "smoke test of prod failed" in message
    assert version == OLD and saw[0].startswith("new")


def test_a_failed_deploy_is_not_tested(states: Any, tmp_path: Any) -> None:
    (told := tmp_path / "told").touch()
    message, saw, version = rolled_out(states, told, "raise SystemExit(3)", "old", cancelled=False)
    assert (message, saw, version) == ("the deploy of prod failed", [], OLD)
