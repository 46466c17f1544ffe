"""The six stages of loading and the documents function as deployed, each call held to its role.

What they really ask of S3, the index, secrets and Step Functions is recorded on the wire. Each of
those calls must be allowed, and each right to objects must be one that some call needs.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docstokg.loading.run.lease import LEASES
from infra.specs import STAGES
from tests.infra.conftest import Template
from tests.infra.deployed import Deployed
from tests.infra.iam import Call, Policies, listed
from tests.infra.loading_cloud import NAMESPACE, LoadingCloud
from tests.infra.loopback_aws import Moto
from tests.infra.test_permissions import assert_held
from tests.model_server import ModelServer
from tests.signatures import be_a_role

LOADERS = [spec.name for spec in STAGES]
WHOSE = ["documents", *LOADERS]
UNUSED = {
    ("ingest_encode", "s3:ListBucket", "runs/"),
    ("ingest_resolve", "s3:DeleteObject", "encodings/"),
}
"""A removed shard is named by its key, not as a refusal of S3; a sweep deletes after two days."""


class Grant(NamedTuple):
    """A role's right to the objects below a prefix of the bucket, and its statement."""

    function: str
    action: str
    prefix: str
    statement: int


@pytest.fixture(scope="module")
def cloud(
    dev: Template, bundles: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LoadingCloud]:
    moto = Moto()
    with pytest.MonkeyPatch.context() as patch:
        be_a_role(patch)
        folder = tmp_path_factory.mktemp("loading")
        cloud = LoadingCloud(dev, moto, ModelServer(key="k"), bundles, folder)
        try:
            cloud.fill_in()
            cloud.start()
            _load(cloud)
            yield cloud
        finally:
            cloud.close()
            moto.close()


def _load(cloud: LoadingCloud) -> None:
    """Load, remove, post, delete: the run of everything that is held against the policies."""
    for name, text in (
        ("a.md", "# A\n\nDravet syndrome shows seizures."),
        ("b.md", "# B\n\nFebrile seizures begin early."),
        ("emptied.md", "# E\n\nA text that its owner deletes."),
        ("poisoned.md", "# P\n\nwith a NUL \0 in it"),
    ):
        cloud.objects.put(f"sources/{NAMESPACE}/{name}", text.encode())
    assert cloud.run(cloud.sources("first")) == "SUCCEEDED", cloud.said
    cloud.objects.delete(f"sources/{NAMESPACE}/b.md")
    cloud.objects.put(f"sources/{NAMESPACE}/emptied.md", b" ")
    assert cloud.run(cloud.sources("second", max_removed=1)) == "SUCCEEDED", cloud.said
    _read_what_is_gone(cloud)
    documents = [
        {"doc_id": "c.md", "text": "# C\n\nSent over HTTP."},
        {"doc_id": "bad.md", "text": "# D\n\nwith a NUL \0 in it"},
    ]
    cloud.send("load", {"documents": documents}, "job-1")
    cloud.send("delete", {"doc_id": "c.md"}, "job-2")
    # An upload whose direct path failed goes on by the maps.
    removal = {"prefix": f"inbox/{NAMESPACE}/maps/", "sync": False, "remove": ["c.md"]}
    assert cloud.run(cloud.sources("maps", **removal)) == "SUCCEEDED", cloud.said
    cloud.runs.aborting.add("job-3")
    cloud.send("load", {"documents": [{"doc_id": "e.md", "text": "E"}]}, "job-3")
    _cancel(cloud)


def _cancel(cloud: LoadingCloud) -> None:
    """End a run that hangs and may write: another one may at once."""
    cloud.runs.hanging.add("job-4")
    status, reply = cloud.request("load", {"documents": [{"doc_id": "f.md", "text": "F"}]}, "job-4")
    assert status == 202, reply
    cloud.objects.put(f"{LEASES}{NAMESPACE}.json", json.dumps({"run_id": "job-4"}).encode())
    status, reply = cloud.request("cancel", {"id": "job-4"}, "cancels")
    assert (status, reply["state"]) == (200, "failed"), reply
    assert cloud.runs.find("job-4")[0] == "ABORTED"


def _read_what_is_gone(cloud: LoadingCloud) -> None:
    """Listed objects and their statements may be deleted before they are read."""
    source, lost, unsaid = (
        f"sources/{NAMESPACE}/gone.md",
        f"inbox/{NAMESPACE}/lost/x.md",
        f"inbox/{NAMESPACE}/unsaid/x.md",
    )
    statement = {"documents": {"x.md": {"title": None, "acl": None, "metadata": {}, "text": True}}}
    cloud.objects.put(f"posted/{NAMESPACE}/lost.json", json.dumps(statement).encode())
    cloud.objects.put(unsaid, b"# X")
    for run_id, key in (("third", source), ("lost", lost), ("unsaid", unsaid)):
        run = cloud.sources(run_id, sync=False)
        if key != source:
            run["prefix"] = key.removesuffix("x.md")
        items = [{"Key": key, "Size": 1, "ETag": "e"}]
        report = cloud.fleet.invoke("ingest_read", {"run": run, "stage": "read", "items": items})
        assert report["chunks"] == 0
        assert report["rejected"] == (key == unsaid)


def test_documents_are_loaded_sent_and_removed(cloud: LoadingCloud) -> None:
    first = cloud.report("first")
    assert first["loaded"] == 3
    assert first["rejected"] == [{"doc_id": "poisoned.md", "reason": "NUL character in line 3"}]
    assert cloud.report("second")["removed"] == 1
    sent, removed, aborted = (cloud.jobs[f"job-{number}"] for number in (1, 2, 3))
    assert (sent["state"], sent["loaded"]) == ("done", 1), cloud.said
    assert [row["doc_id"] for row in sent["rejected"]] == ["bad.md"]
    assert (removed["state"], removed["kind"], removed["removed"]) == ("done", "delete", 1)
    assert aborted["state"] == "failed"
    assert "without a report" in aborted["reason"]
    assert cloud.request("job", {"id": "nobody"}, "asked")[0] == 404


def test_every_call_is_allowed_and_its_neighbours_refused(cloud: LoadingCloud) -> None:
    calls = list(cloud.calls())
    assert_held(calls, cloud.policies, cloud.deployed)
    assert cloud.search.refused == []
    assert {call.principal for call in calls} == {cloud.deployed.role_of(name) for name in WHOSE}
    assert {call.action for call in calls} >= {
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:ListBucket",
        "states:StartExecution",
        "states:ListExecutions",
        "states:DescribeExecution",
        "states:StopExecution",
        "es:ESHttpGet",
        "es:ESHttpPost",
        "es:ESHttpPut",
        "es:ESHttpDelete",
        "secretsmanager:GetSecretValue",
    }


@pytest.mark.parametrize("name", ["staging", "prod"])
def test_environments_allow_the_same_calls_and_no_neighbour(
    cloud: LoadingCloud, request: pytest.FixtureRequest, name: str
) -> None:
    """What dev's functions asked, asked of the other environments' policies by their own names."""
    other = Deployed(request.getfixturevalue(name))
    move = _moved(cloud.deployed, other)
    calls = [
        Call(move(call.principal), call.action, move(call.resource), call.context)
        for call in cloud.calls()
    ]
    assert len(calls) > 60
    assert not [call for call in calls if "dev" in call.resource.split("/", 1)[0]]
    assert_held(calls, Policies(other), other)


def _moved(source: Deployed, target: Deployed) -> Callable[[str], str]:
    """Give for an ARN of one environment that of the same thing in another.

    An index has its environment's name in its path, so every `docstokg-dev` is the other's.
    """
    kinds = ("AWS::IAM::Role", "AWS::S3::Bucket", "AWS::SecretsManager::Secret")
    same = [name for kind in kinds for name in source.all(kind) if name in target.all(kind)]
    table = {source.arn(name): target.arn(name) for name in same}
    domains = (
        deployed.arn(deployed.only("AWS::OpenSearchService::Domain"))
        for deployed in (source, target)
    )
    table.update([tuple(domains)])

    def moved(arn: str) -> str:
        for before, after in table.items():
            if arn == before or arn.startswith(f"{before}/"):
                arn = after + arn.removeprefix(before)
        names = (f"docstokg-{deployed.template.name}" for deployed in (source, target))
        return arn.replace(*names)

    return moved


def test_each_right_to_objects_serves_a_call(cloud: LoadingCloud) -> None:
    """Taken away alone, each right that is not in UNUSED refuses a call that was made."""
    calls = [call for call in cloud.calls() if call.action.startswith("s3:")]
    grants = [grant for function in WHOSE for grant in _grants(cloud, function)]
    assert len(grants) > 25
    unused = {grant[:3] for grant in grants if not _refused_without(cloud, grant, calls)}
    assert unused == UNUSED


def test_no_stage_may_access_objects_of_another(cloud: LoadingCloud) -> None:
    bucket = f"arn:aws:s3:::{cloud.bucket}"
    granted = {grant[:3] for function in WHOSE for grant in _grants(cloud, function)}
    for function in WHOSE:
        role = cloud.deployed.role_of(function)
        prefixes = ("sources/", "inbox/", "posted/", "runs/", "encodings/", "register/")
        for prefix in (*prefixes, "snapshots/"):
            for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
                allowed = cloud.policies.allows(Call(role, action, f"{bucket}/{prefix}d/x"))
                assert allowed == ((function, action, prefix) in granted), (
                    function,
                    action,
                    prefix,
                )
            listed = Call(role, "s3:ListBucket", bucket, {"s3:prefix": f"{prefix}d/"})
            assert cloud.policies.allows(listed) == ((function, "s3:ListBucket", prefix) in granted)
        assert not cloud.policies.allows(Call(role, "s3:ListBucket", bucket, {"s3:prefix": ""}))


def _grants(cloud: LoadingCloud, function: str) -> Iterator[Grant]:
    statements = cloud.policies.of_roles[cloud.deployed.role_of(function)]
    for number, statement in enumerate(statements):
        for action in listed(statement["Action"]):
            if not action.startswith("s3:"):
                continue
            prefixes = listed(statement["Resource"])
            if action == "s3:ListBucket":
                prefixes = listed(statement["Condition"]["StringLike"]["s3:prefix"])
            for prefix in prefixes:
                below = prefix.removeprefix(f"arn:aws:s3:::{cloud.bucket}/").removesuffix("*")
                yield Grant(function, action, below, number)


def _refused_without(cloud: LoadingCloud, grant: Grant, calls: list[Call]) -> bool:
    """Whether a recorded call is refused once this one right is gone."""
    role = cloud.deployed.role_of(grant.function)
    policies = copy.copy(cloud.policies)
    statements = copy.deepcopy(cloud.policies.of_roles[role])
    policies.of_roles = {**cloud.policies.of_roles, role: statements}
    statement = statements[grant.statement]
    if grant.action == "s3:ListBucket":
        condition = statement["Condition"]["StringLike"]
        condition["s3:prefix"] = _less(condition["s3:prefix"], f"{grant.prefix}*")
    else:
        whole = f"arn:aws:s3:::{cloud.bucket}/{grant.prefix}"
        statement["Resource"] = _less(statement["Resource"], whole, f"{whole}*")
    return any(not policies.allows(call) for call in calls if call.principal == role)


def _less(values: Any, *removed: str) -> list[str]:
    return [value for value in listed(values) if value not in removed]
