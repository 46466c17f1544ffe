"""Shift traffic by hand: `make promote ENV=prod PERCENT=10`."""

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from infra.settings import environment
from infra.specs import ROLLBACK_ALARMS

# Two alarm periods plus CloudWatch's evaluation time.
WATCH_MINUTES = 12.0
LOOK_EVERY_S = 15.0

Weights = list[dict[str, Any]]


def weights(versions: Sequence[str], percent: int) -> Weights:
    """Return routes: `percent` to the newest version, the rest to the previous one.

    Zero routes are omitted. `versions`: ARNs, newest first. Raises ValueError outside 0 to 100,
    without versions, and below 100 with only one.
    """
    if not 0 <= percent <= 100:
        raise ValueError("PERCENT is 0..100")
    if not versions:
        raise ValueError("no version is published yet: deploy first")
    if percent < 100 and len(versions) < 2:
        raise ValueError("there is only one version, so nothing to share traffic with")
    return [
        {"stateMachineVersionArn": version, "weight": weight}
        for version, weight in zip(versions, (percent, 100 - percent), strict=False)
        if weight
    ]


def firing(name: str, cloudwatch: Any) -> list[str]:
    """Return the names of the rollback alarms that fire or are missing, sorted."""
    names = [f"docstokg-{name}-{alarm}" for alarm in ROLLBACK_ALARMS]
    alarms = cloudwatch.describe_alarms(AlarmNames=names)["MetricAlarms"]
    states = {str(alarm["AlarmName"]): alarm["StateValue"] for alarm in alarms}
    return sorted(name for name in names if states.get(name, "MISSING") in ("ALARM", "MISSING"))


def promote(name: str, percent: int, states: Any, cloudwatch: Any) -> Weights:
    """Shift `percent` of the traffic to the newest version; return the routes.

    Raise ValueError if an alarm fires or is missing (except for 0 per cent), for an unknown
    environment or machine, and as `weights`.
    """
    environment(name)
    if percent > 0 and (bad := firing(name, cloudwatch)):
        raise ValueError(f"not while these alarms fire or are missing: {', '.join(bad)}")
    machine = machine_arn(states, f"docstokg-{name}")
    listed = states.list_state_machine_versions(stateMachineArn=machine, maxResults=10)
    versions = [v["stateMachineVersionArn"] for v in listed["stateMachineVersions"]]
    routing = weights(versions, percent)
    states.update_state_machine_alias(
        stateMachineAliasArn=f"{machine}:live", routingConfiguration=routing
    )
    return routing


def watch(
    name: str,
    minutes: float,
    states: Any,
    cloudwatch: Any,
    wait: Callable[[float], object] = time.sleep,
) -> list[str]:
    """Watch the rollback alarms for `minutes`; roll back when one fires or is missing.

    Returns these alarms, or []. Raises ValueError as `promote`.
    """
    for _ in range(max(1, math.ceil(minutes * 60 / LOOK_EVERY_S))):
        wait(LOOK_EVERY_S)
        if bad := firing(name, cloudwatch):
            promote(name, 0, states, cloudwatch)
            return bad
    return []


def machine_arn(states: Any, name: str) -> str:
    """Return the ARN of a state machine; ValueError if there is none with this name."""
    listed = states.get_paginator("list_state_machines").paginate()
    for arn in listed.search(f"stateMachines[?name=='{name}'].stateMachineArn"):
        return str(arn)
    raise ValueError(f"there is no state machine {name} in this account and region")


def outputs_of(cloudformation: Any, stack: str) -> Mapping[str, str] | None:
    """Return the outputs of a stack by name; None without the stack."""
    try:
        (description,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except cloudformation.exceptions.ClientError as exc:
        if "does not exist" in str(exc):
            return None
        raise
    return {output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", ())}


def main(
    name: str, percent: int, minutes: Annotated[float, typer.Option("--watch")] = WATCH_MINUTES
) -> None:
    """Shift PERCENT of the traffic of an environment to its newest version.

    Then watch the alarms for some minutes, and roll back if one fires. SystemExit if refused or
    rolled back.
    """
    import boto3

    session = boto3.session.Session(region_name=environment(name).region)
    clients = session.client("stepfunctions"), session.client("cloudwatch")
    try:
        routing = promote(name, percent, *clients)
    except ValueError as exc:
        raise SystemExit(str(exc)) from exc
    for share in routing:
        sys.stdout.write(f"{share['weight']:>3} %  {share['stateMachineVersionArn']}\n")
    if percent > 0 and minutes > 0:
        sys.stdout.write(f"watching for {minutes:g} minutes\n")
        if bad := watch(name, minutes, *clients):
            raise SystemExit(f"gone back to the version before: {', '.join(bad)} fired")


if __name__ == "__main__":
    typer.run(main)
