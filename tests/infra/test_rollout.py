"""A deploy whose smoke test fails is taken back: Step Functions by the emulator."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import Stubber

from infra import rollout
from infra.specs import PACKAGED
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


def answer_aliases(stub: Stubber, versions: dict[str, str]) -> None:
    """Answer for the alias of each function; without a version there is no such function."""
    for spec in PACKAGED:
        if spec.name in versions:
            alias = {"FunctionVersion": versions[spec.name]}
            name = {"FunctionName": f"docstokg-prod-{spec.name}", "Name": "live"}
            stub.add_response("get_alias", alias, name)
        else:
            stub.add_client_error("get_alias", "ResourceNotFoundException")


def rolled_out(
    states: Any, log_file: Any, deploy: str, expected: str, cancelled: bool
) -> tuple[str, list[str], str]:
    """Return the exit message, the smoke tests' log, and the version with all traffic."""
    command = [sys.executable, "-c", SMOKE, expected, str(log_file)]

    def smoke(share: int) -> bool:
        return subprocess.call([*command, "--share", str(share)]) == 0

    with stubbed("cloudformation") as stacks, stubbed("lambda") as functions:
        if cancelled:
            stacks.stub.add_response("cancel_update_stack", {}, {"StackName": "docstokg-prod"})
        went_back = expected == "old" and "SystemExit" not in deploy
        answer_aliases(functions.stub, {"mcp": "7", "check": "4"})
        for _ in range(went_back + (went_back and cancelled)):
            answer_aliases(functions.stub, {"mcp": "8", "check": "4"})
            changed = {"FunctionName": "docstokg-prod-mcp", "Name": "live", "FunctionVersion": "7"}
            functions.stub.add_response("update_alias", {}, changed)
        message = ""
        try:
            release = rollout.Release("prod", states, stacks, functions)
            release.rollout([sys.executable, "-c", deploy, "300"], smoke)
        except SystemExit as failure:
            message = str(failure)
    ((version, share),) = (
        (route["stateMachineVersionArn"], route["weight"])
        for route in states.describe_state_machine_alias(stateMachineAliasArn=ALIAS)[
            "routingConfiguration"
        ]
    )
    assert share == 100
    return message, log_file.read_text().splitlines(), version


def test_versions_failing_the_smoke_test_get_no_traffic(states: Any, tmp_path: Any) -> None:
    message, saw, version = rolled_out(states, tmp_path / "told", GRADUAL, "old", cancelled=True)
    assert "traffic is as before, and CloudFormation takes the rest" in message
    assert saw == ["new ['--share', '60']"]
    assert version == OLD
    assert json.loads(run_live(states, ALIAS)["output"]) == "old"


def test_a_version_that_passes_gets_all_traffic(states: Any, tmp_path: Any) -> None:
    deploy = GRADUAL.replace("int(sys.argv[1])", "30")
    message, saw, version = rolled_out(states, tmp_path / "told", deploy, "new", cancelled=False)
    assert (message, saw, version) == ("", ["new ['--share', '60']"], NEW)


def test_the_smoke_test_follows_a_deploy_without_shift(states: Any, tmp_path: Any) -> None:
    message, saw, version = rolled_out(states, tmp_path / "told", AT_ONCE, "old", cancelled=False)
    assert "loads, gateway, flags and alarms are new until" in message
    assert version == OLD and saw[0].startswith("new")


def test_a_failed_deploy_is_not_tested(states: Any, tmp_path: Any) -> None:
    (log_file := tmp_path / "told").touch()
    message, saw, version = rolled_out(
        states, log_file, "raise SystemExit(3)", "old", cancelled=False
    )
    assert (message, saw, version) == ("the deploy of prod failed", [], OLD)


@pytest.mark.parametrize("first", [True, False])
def test_the_first_deploy_needs_no_url(first: bool) -> None:
    """The output of the stack has it; before the stack there is none."""
    with stubbed("cloudformation") as stacks:
        if first:
            missing = "Stack with id docstokg-prod does not exist"
            stacks.stub.add_client_error("describe_stacks", "ValidationError", missing)
        else:
            stack = {"StackName": "s", "CreationTime": 0, "StackStatus": "CREATE_COMPLETE"}
            outputs = [{"OutputKey": "Url", "OutputValue": "https://api"}]
            stacks.stub.add_response("describe_stacks", {"Stacks": [{**stack, "Outputs": outputs}]})
        assert rollout.stack_url("prod", stacks) == ("" if first else "https://api")
