"""Takes an environment away: `make destroy ENV=dev`, which `cdk destroy` alone cannot finish.

CloudFormation deletes no policy that somebody's role still has, no bucket that holds an object and
no profile of flags that has a version made by hand. So these go first, and then the two stacks.
What an environment keeps (`retain_data`) stays: its buckets are not emptied.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from infra.settings import Environment, environment

POLICIES = ("CallerPolicy", "LoadingCallerPolicy", "LoaderPolicy", "SourcesPolicy")
BUCKETS = ("DocumentBucket", "SnapshotBucket")
HELD = (("Role", "Roles"), ("User", "Users"), ("Group", "Groups"))
BATCH = 1_000
"""Objects that S3 deletes in one call."""

type Clients = Callable[[str], Any]
"""Name of a service -> boto3's client of it."""


def destroy(target: Environment, clients: Clients, say: Callable[[str], object]) -> None:
    """Delete both stacks of an environment, the one that runs first; a stack that is gone is."""
    cloudformation = clients("cloudformation")
    for stack in (f"docstokg-{target.name}", f"docstokg-{target.name}-data"):
        outputs = _outputs(cloudformation, stack)
        if outputs is None:
            say(f"{stack} is not there")
            continue
        for name in POLICIES:
            if arn := outputs.get(name):
                for holder in detach(clients("iam"), arn):
                    say(f"{name} taken from {holder}")
        if profile := outputs.get("FlagsProfile"):
            application, _, profile_id = profile.split("/")
            count = forget_versions(clients("appconfig"), application, profile_id)
            say(f"{count} versions of the flags deleted")
        for name in BUCKETS:
            if (bucket := outputs.get(name)) and not target.retain_data:
                say(f"{empty(clients('s3'), bucket)} objects of {bucket} deleted")
        cloudformation.delete_stack(StackName=stack)
        waiting = cloudformation.get_waiter("stack_delete_complete")
        waiting.wait(StackName=stack, WaiterConfig={"Delay": 15, "MaxAttempts": 480})
        say(f"{stack} is gone")


def detach(iam: Any, policy: str) -> Iterator[str]:
    """Take a managed policy from everybody who has it, and name them."""
    for page in iam.get_paginator("list_entities_for_policy").paginate(PolicyArn=policy):
        for kind, plural in HELD:
            for holder in page[f"Policy{plural}"]:
                name = holder[f"{kind}Name"]
                take = getattr(iam, f"detach_{kind.lower()}_policy")
                take(PolicyArn=policy, **{f"{kind}Name": name})
                yield name


def empty(s3: Any, bucket: str) -> int:
    """Delete every version of every object of a bucket; give how many."""
    count = 0
    while True:
        page = s3.list_object_versions(Bucket=bucket, MaxKeys=BATCH)
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        if not found:
            return count
        named = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in found]
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": named, "Quiet": True})
        if errors := answer.get("Errors"):
            raise SystemExit(f"{bucket}: {errors[0]['Key']} cannot be deleted: {errors[0]['Code']}")
        count += len(named)


def forget_versions(appconfig: Any, application: str, profile: str) -> int:
    """Delete every hosted version of a profile, also those made by hand; give how many."""
    of = {"ApplicationId": application, "ConfigurationProfileId": profile}
    count = 0
    while found := appconfig.list_hosted_configuration_versions(**of)["Items"]:
        for version in found:
            number = version["VersionNumber"]
            appconfig.delete_hosted_configuration_version(**of, VersionNumber=number)
        count += len(found)
    return count


def _outputs(cloudformation: Any, stack: str) -> Mapping[str, str] | None:
    """What a stack puts out, or None where it is not there."""
    try:
        (found,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except cloudformation.exceptions.ClientError as exc:
        if "does not exist" in str(exc):
            return None
        raise
    return {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", ())}


def main(arguments: Sequence[str] | None = None) -> None:
    """`python -m infra.destroy ENV`: the name is asked for once more."""
    import boto3

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("environment")
    parser.add_argument("--yes", action="store_true", help="ask nothing")
    options = parser.parse_args(arguments)
    target = environment(options.environment)
    if target.termination_protection:
        raise SystemExit(f"{target.name} is protected: docs/deploy.md, destroy, says how it goes")
    if not options.yes and input(f"Type {target.name} to delete it: ") != target.name:
        raise SystemExit("nothing was deleted")
    session = boto3.session.Session(region_name=target.region)
    destroy(target, session.client, lambda text: sys.stdout.write(f"{text}\n"))


if __name__ == "__main__":
    main()
