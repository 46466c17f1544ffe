"""Deploy and test an environment: `make rollout ENV=prod`."""

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import typer

from infra.promote import Weights, machine_arn
from infra.settings import environment

DEPLOY = ("npx", "aws-cdk@2.1148.1", "deploy", "--all", "--require-approval", "never")
LOOK_EVERY_S = 5.0


def traffic(name: str, states: Any) -> tuple[str, Weights]:
    """Return the alias ARN of an environment and its routes; ("", []) before the first deploy."""
    try:
        alias = f"{machine_arn(states, f'docstokg-{name}')}:live"
        return alias, states.describe_state_machine_alias(stateMachineAliasArn=alias)[
            "routingConfiguration"
        ]
    except (ValueError, states.exceptions.ResourceNotFound):
        return "", []


def share_of_new(before: Weights, now: Weights) -> int:
    """Return the per cent of the traffic that goes to versions without traffic before."""
    old = {route["stateMachineVersionArn"] for route in before}
    return sum(route["weight"] for route in now if route["stateMachineVersionArn"] not in old)


def rollout(
    name: str, deploy: Sequence[str], smoke: Sequence[str], states: Any, cloudformation: Any
) -> None:
    """Run `deploy`, and `smoke` while traffic shifts or, if it does not, afterwards.

    `smoke` gets `--share`, the new version's per cent of the traffic. Raises `SystemExit` if one
    of them fails; after a failing smoke test the routes are those before the deploy.
    """
    alias, before = traffic(name, states)
    tested = failed = False
    with subprocess.Popen(deploy) as deploying:  # noqa: S603 - a command of this repository
        while deploying.poll() is None:
            share = share_of_new(before, traffic(name, states)[1]) if before else 0
            if 0 < share < 100 and not tested:
                tested = True
                if failed := _fails(smoke, share):
                    _go_back(alias, before, states)
                    # The deploy may have ended meanwhile.
                    with suppress(cloudformation.exceptions.ClientError):
                        cloudformation.cancel_update_stack(StackName=f"docstokg-{name}")
            time.sleep(LOOK_EVERY_S)
    if not failed and deploying.returncode:
        raise SystemExit(f"the deploy of {name} failed")
    if not tested:
        failed = _fails(smoke, 100)
    if failed:
        if before and traffic(name, states)[1] != before:
            _go_back(alias, before, states)
        raise SystemExit(f"the smoke test of {name} failed: traffic is as before, if it had any")


def _fails(smoke: Sequence[str], share: int) -> bool:
    return subprocess.call([*smoke, "--share", str(share)]) != 0  # noqa: S603 - see above


def _go_back(alias: str, before: Weights, states: Any) -> None:
    states.update_state_machine_alias(stateMachineAliasArn=alias, routingConfiguration=before)


def main(name: str) -> None:
    """Deploy an environment, and go back if the smoke test fails (SystemExit).

    The variable URL has the output `Url`; SMOKE_* are those of `make smoke`.
    """
    import boto3

    session = boto3.session.Session(region_name=environment(name).region)
    states, cloudformation = session.client("stepfunctions"), session.client("cloudformation")
    smoke = [sys.executable, "-m", "infra.smoke", "--env", name]
    rollout(name, [*DEPLOY, "-c", f"env={name}"], smoke, states, cloudformation)


if __name__ == "__main__":
    typer.run(main)
