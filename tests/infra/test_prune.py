"""Old versions go and nothing a rollback needs does: moto's Lambda, Step Functions by its model."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import pytest

from infra.prune import leftovers, prune
from tests.infra.conftest import stubbed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
REGION = "eu-central-1"
MACHINE = f"arn:aws:states:{REGION}:123456789012:stateMachine:docstokg-prod"
NAME = "docstokg-prod-ground"
ROLE = "arn:aws:iam::123456789012:role/any"


@pytest.fixture
def functions(aws: Any) -> Any:
    """One function with six published versions; `live` names the fifth."""
    trust = {"Version": "2012-10-17", "Statement": []}
    aws.client("iam").create_role(RoleName="any", AssumeRolePolicyDocument=json.dumps(trust))
    client = aws.client("lambda")
    client.create_function(
        FunctionName=NAME, Role=ROLE, Handler="a.b", Runtime="python3.13", Code=code(0)
    )
    for number in range(1, 7):
        client.update_function_code(FunctionName=NAME, **code(number))
        client.publish_version(FunctionName=NAME)
    client.create_alias(FunctionName=NAME, Name="live", FunctionVersion="5")
    return client


def code(number: int) -> dict[str, bytes]:
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        archive.writestr("a.py", f"b = {number}")
    return {"ZipFile": content.getvalue()}


def version_of(number: int) -> str:
    return f"arn:aws:lambda:{REGION}:123456789012:function:{NAME}:{number}"


@pytest.fixture
def states() -> Iterator[Any]:
    with stubbed("stepfunctions") as client:
        yield client


def describe(states: Any, names: dict[int, str], routed: tuple[int, ...]) -> None:
    """Machine versions by number, newest first, each naming one function version."""
    listed = [
        {"stateMachineVersionArn": f"{MACHINE}:{n}", "creationDate": 0} for n in sorted(names)[::-1]
    ]
    shares = [{"stateMachineVersionArn": f"{MACHINE}:{n}", "weight": 50} for n in routed]
    states.stub.add_response(
        "describe_state_machine_alias",
        {"routingConfiguration": shares},
        {"stateMachineAliasArn": f"{MACHINE}:live"},
    )
    states.stub.add_response(
        "list_state_machine_versions",
        {"stateMachineVersions": listed},
        {"stateMachineArn": MACHINE, "maxResults": 100},
    )
    newest = sorted(names)[::-1][:3]
    for number in sorted({*newest, *routed})[::-1]:
        states.stub.add_response(
            "describe_state_machine",
            {
                "stateMachineArn": f"{MACHINE}:{number}",
                "name": "docstokg-prod",
                "definition": json.dumps({"FunctionName": names[number]}),
                "roleArn": ROLE,
                "type": "EXPRESS",
                "creationDate": 0,
            },
            {"stateMachineArn": f"{MACHINE}:{number}"},
        )


def test_recent_routed_and_aliased_versions_stay(states: Any, functions: Any) -> None:
    named = {number: version_of(number) for number in range(1, 5)} | {5: version_of(6)}
    describe(states, named, routed=(1, 5))
    unused = leftovers([MACHINE], [NAME], states, functions)
    # 3, 4 and 6 by the last three machines, 1 by traffic, 5 by the alias.
    assert unused == ([f"{MACHINE}:2"], [version_of(2)])
    states.stub.add_response(
        "delete_state_machine_version", {}, {"stateMachineVersionArn": f"{MACHINE}:2"}
    )
    prune(*unused, states, functions)
    versions = functions.list_versions_by_function(FunctionName=NAME)["Versions"]
    assert [v["Version"] for v in versions] == ["$LATEST", "1", "3", "4", "5", "6"]


def test_a_machine_that_names_nothing_removes_nothing(states: Any, functions: Any) -> None:
    describe(states, {1: "${GroundFunction}"}, routed=(1,))
    with pytest.raises(ValueError, match="nothing is safe to remove"):
        leftovers([MACHINE], [NAME], states, functions)


def test_only_versions_are_removed(states: Any, functions: Any) -> None:
    whole = f"arn:aws:lambda:{REGION}:123456789012:function:{NAME}"
    for arn in (whole, f"{whole}:live", f"{whole}:$LATEST"):
        with pytest.raises(ValueError, match="no version"):
            prune((), (arn,), states, functions)
    assert len(functions.list_versions_by_function(FunctionName=NAME)["Versions"]) == 7
