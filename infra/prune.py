"""Remove versions that no rollback needs: `make prune ENV=prod`.

Kept: those of the last state machine versions, with traffic or an alias.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from infra.promote import outputs_of
from infra.settings import environment
from infra.specs import FUNCTIONS, PAGE

KEPT_MACHINES = 3
FUNCTION = re.compile(r"arn:[\w-]+:lambda:[\w-]+:\d+:function:[\w-]+:\d+")


def leftovers(
    machines: Sequence[str], names: Sequence[str], states: Any, functions: Any
) -> tuple[list[str], list[str]]:
    """Return the ARNs of unused state machine versions and function versions.

    `machines`: the one with the alias `live` first. `names`: the functions. Raises ValueError if a
    machine names no function version.
    """
    alias = states.describe_state_machine_alias(stateMachineAliasArn=f"{machines[0]}:live")
    routed = {share["stateMachineVersionArn"] for share in alias["routingConfiguration"]}
    in_use: set[str] = set()
    old: list[str] = []
    for machine in machines:
        versions = list(_machine_versions(machine, states))
        stay = [arn for i, arn in enumerate(versions) if i < KEPT_MACHINES or arn in routed]
        in_use |= _versions_of(machine, stay, states)
        old += [arn for arn in versions if arn not in stay]
    unused, paginated = [], functions.get_paginator
    for name in names:
        in_use |= {
            f"{_unqualified(item['AliasArn'])}:{version}"
            for item in paginated("list_aliases").paginate(FunctionName=name).search("Aliases[]")
            for version in _routes(item)
        }
        unused += [
            item["FunctionArn"]
            for item in paginated("list_versions_by_function")
            .paginate(FunctionName=name)
            .search("Versions[]")
            if item["Version"] != "$LATEST" and item["FunctionArn"] not in in_use
        ]
    return old, unused


def _versions_of(machine: str, versions: Sequence[str], states: Any) -> set[str]:
    arns: set[str] = set()
    for arn in versions:
        described = states.describe_state_machine(stateMachineArn=arn)
        arns.update(FUNCTION.findall(described["definition"]))
    if not arns:
        raise ValueError(f"{machine} names no function versions, so nothing is safe to remove")
    return arns


def prune(machines: Sequence[str], versions: Sequence[str], states: Any, functions: Any) -> None:
    """Delete these versions, given as ARNs.

    Raise ValueError, before any deletion, if one of `versions` is no version of a function.
    """
    for arn in versions:
        if not FUNCTION.fullmatch(arn):
            raise ValueError(f"{arn} is no version of a function")
    for arn in machines:
        states.delete_state_machine_version(stateMachineVersionArn=arn)
    for arn in versions:
        functions.delete_function(FunctionName=_unqualified(arn), Qualifier=arn.rpartition(":")[2])


def _routes(alias: dict[str, Any]) -> list[str]:
    weights = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    return [str(alias["FunctionVersion"]), *weights]


def _unqualified(arn: str) -> str:
    return ":".join(arn.split(":")[:7])


def _machine_versions(machine: str, states: Any) -> Iterator[str]:
    paging: dict[str, str] = {}
    while True:
        page = states.list_state_machine_versions(stateMachineArn=machine, maxResults=100, **paging)
        yield from (version["stateMachineVersionArn"] for version in page["stateMachineVersions"])
        if not page.get("nextToken"):
            return
        paging = {"nextToken": page["nextToken"]}


def main(name: str, dry_run: bool = False) -> None:
    """Remove the unused versions of an environment, in the role that its outputs name.

    A dry run only lists them.
    """
    import boto3

    target = environment(name)
    mine = boto3.session.Session(region_name=target.region)
    stack = f"docstokg-{target.name}"
    role = (outputs_of(mine.client("cloudformation"), stack) or {})["PrunerRole"]
    account = role.split(":")[4]
    keys = mine.client("sts").assume_role(RoleArn=role, RoleSessionName="prune")["Credentials"]
    session = boto3.session.Session(
        keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], target.region
    )
    states, functions = session.client("stepfunctions"), session.client("lambda")
    machine = f"arn:aws:states:{target.region}:{account}:stateMachine:{stack}"
    specs = (*FUNCTIONS, PAGE) if target.page else FUNCTIONS
    names = [f"{stack}-{spec.name}" for spec in specs]
    both = [machine, f"{machine}-ingest"]
    machines, versions = leftovers(both, names, states, functions)
    for arn in (*machines, *versions):
        sys.stdout.write(f"{arn}\n")
    if not dry_run:
        prune(machines, versions, states, functions)
    done = "would go" if dry_run else "removed"
    counts = f"{len(machines)} state machine and {len(versions)} function versions"
    sys.stdout.write(f"{counts} {done}\n")


if __name__ == "__main__":
    typer.run(main)
