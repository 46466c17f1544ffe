"""Deploy and test an environment: `make rollout ENV=prod`."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import typer

from infra.promote import Weights, machine_arn, outputs_of
from infra.settings import environment
from infra.specs import PACKAGED

DEPLOY = ("npx", "aws-cdk@2.1148.1", "deploy", "--all", "--require-approval", "never")
LOOK_EVERY_S = 5.0
LIVE = "live"


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


def live_versions(name: str, functions: Any) -> dict[str, str]:
    """Return the version behind the alias `live` of each function of an environment, by name."""
    versions = {}
    for spec in PACKAGED:
        function = f"docstokg-{name}-{spec.name}"
        with suppress(functions.exceptions.ResourceNotFoundException):
            alias = functions.get_alias(FunctionName=function, Name=LIVE)
            versions[function] = str(alias["FunctionVersion"])
    return versions


def stack_url(name: str, cloudformation: Any) -> str:
    """Return the output `Url` of an environment's second stack; "" without the stack."""
    return (outputs_of(cloudformation, f"docstokg-{name}") or {}).get("Url", "")


class Release(NamedTuple):
    """The clients of one environment, for its release."""

    name: str
    states: Any
    cloudformation: Any
    functions: Any

    def rollout(self, deploy: Sequence[str], smoke: Callable[[int], bool]) -> None:
        """Run `deploy`, and `smoke` while traffic shifts or, if it does not, afterwards.

        `smoke` is given the new version's per cent of the traffic, and returns whether it passed.
        Raises `SystemExit` if one of them fails; after a failing smoke test questions and single
        routes go to the versions before the deploy.
        """
        name, states = self.name, self.states
        alias, before = traffic(name, states)
        versions = live_versions(name, self.functions)
        tested = failed = cancelled = False
        with subprocess.Popen(deploy) as deploying:  # noqa: S603 - a command of this repository
            while deploying.poll() is None:
                share = share_of_new(before, traffic(name, states)[1]) if before else 0
                if 0 < share < 100 and not tested:
                    tested = True
                    if failed := not smoke(share):
                        self._go_back(alias, before, versions)
                        # The deploy may have ended meanwhile.
                        with suppress(self.cloudformation.exceptions.ClientError):
                            self.cloudformation.cancel_update_stack(StackName=f"docstokg-{name}")
                            cancelled = True
                time.sleep(LOOK_EVERY_S)
        if not failed and deploying.returncode:
            raise SystemExit(f"the deploy of {name} failed")
        if not tested:
            failed = not smoke(100)
        if failed:
            self._go_back(alias, before, versions)
            raise SystemExit(f"the smoke test of {name} failed: {_outcome(before, cancelled)}")

    def _go_back(self, alias: str, before: Weights, versions: Mapping[str, str]) -> None:
        if before and traffic(self.name, self.states)[1] != before:
            self.states.update_state_machine_alias(
                stateMachineAliasArn=alias, routingConfiguration=before
            )
        newer = live_versions(self.name, self.functions)
        for function in sorted(name for name in versions if newer.get(name) != versions[name]):
            self.functions.update_alias(
                FunctionName=function, Name=LIVE, FunctionVersion=versions[function]
            )


def _outcome(before: Weights, cancelled: bool) -> str:
    if not before:
        return "there is no version before to go back to"
    if cancelled:
        return "traffic is as before, and CloudFormation takes the rest of the update back"
    return (
        "questions and single routes are as before; loads, gateway, flags and alarms are new "
        "until the earlier commit is deployed"
    )


def main(name: str) -> None:
    """Deploy an environment, and go back if the smoke test fails (SystemExit).

    The variable URL, by default the output `Url`, and SMOKE_* are those of `make smoke`.
    """
    import boto3

    session = boto3.session.Session(region_name=environment(name).region)
    clients = [session.client(service) for service in ("stepfunctions", "cloudformation", "lambda")]
    release = Release(name, *clients)

    def smoke(share: int) -> bool:
        url = os.environ.get("URL") or stack_url(name, release.cloudformation)
        command = [sys.executable, "-m", "infra.smoke", "--env", name, "--url", url]
        return subprocess.call([*command, "--share", str(share)]) == 0  # noqa: S603 - see above

    release.rollout([*DEPLOY, "-c", f"env={name}"], smoke)


if __name__ == "__main__":
    typer.run(main)
