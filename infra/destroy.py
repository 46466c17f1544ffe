"""`make destroy ENV=dev`."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import typer

from infra.promote import outputs_of
from infra.settings import Environment, environment

POLICIES = ("CallerPolicy", "LoadingCallerPolicy", "LoaderPolicy", "SourcesPolicy")
BUCKETS = ("DocumentBucket", "SnapshotBucket")


def destroy(target: Environment, session: Any, report: Callable[[str], object]) -> None:
    """Delete both stacks of an environment, if they exist, and wait.

    Detaches policies, deletes versions of flags and, unless `retain_data`, empties buckets (see
    `empty`). `session`: a boto3 session.
    """
    cloudformation = session.client("cloudformation")
    for stack in (f"docstokg-{target.name}", f"docstokg-{target.name}-data"):
        outputs = outputs_of(cloudformation, stack)
        if outputs is None:
            report(f"{stack} is not there")
            continue
        for name in POLICIES:
            if arn := outputs.get(name):
                for holder in detach(session.resource("iam").Policy(arn)):
                    report(f"{name} taken from {holder}")
        if profile := outputs.get("FlagsProfile"):
            application, _, profile_id = profile.split("/")
            count = forget_versions(session.client("appconfig"), application, profile_id)
            report(f"{count} versions of the flags deleted")
        for name in BUCKETS:
            if (bucket := outputs.get(name)) and not target.retain_data:
                count = empty(session.resource("s3").Bucket(bucket))
                report(f"{count} objects of {bucket} deleted")
        cloudformation.delete_stack(StackName=stack)
        waiting = cloudformation.get_waiter("stack_delete_complete")
        waiting.wait(StackName=stack, WaiterConfig={"Delay": 15, "MaxAttempts": 480})
        report(f"{stack} is gone")


def detach(policy: Any) -> Iterator[str]:
    """Detach a managed policy from every role, user and group; yield their names."""
    for holders in (policy.attached_roles, policy.attached_users, policy.attached_groups):
        for holder in list(holders.all()):
            holder.detach_policy(PolicyArn=policy.arn)
            yield holder.name


def empty(bucket: Any) -> int:
    """Delete all object versions of a bucket; return their number; raise SystemExit on failure."""
    count = 0
    for answer in bucket.object_versions.delete():
        if errors := answer.get("Errors"):
            key, code = errors[0]["Key"], errors[0]["Code"]
            raise SystemExit(f"{bucket.name}: {key} cannot be deleted: {code}")
        count += len(answer["Deleted"])
    return count


def forget_versions(appconfig: Any, application: str, profile: str) -> int:
    """Delete every hosted version of a profile; return their number."""
    of = {"ApplicationId": application, "ConfigurationProfileId": profile}
    count = 0
    while versions := appconfig.list_hosted_configuration_versions(**of)["Items"]:
        for version in versions:
            number = version["VersionNumber"]
            appconfig.delete_hosted_configuration_version(**of, VersionNumber=number)
        count += len(versions)
    return count


def main(name: str, yes: bool = False) -> None:
    """Delete an environment; without --yes its name has to be typed again.

    SystemExit for another name and for a protected environment.
    """
    import boto3

    target = environment(name)
    if target.termination_protection:
        raise SystemExit(f"{target.name} is protected: docs/deploy.md, destroy, says how it goes")
    if not yes and input(f"Type {target.name} to delete it: ") != target.name:
        raise SystemExit("nothing was deleted")
    session = boto3.session.Session(region_name=target.region)
    destroy(target, session, lambda text: sys.stdout.write(f"{text}\n"))


if __name__ == "__main__":
    typer.run(main)
