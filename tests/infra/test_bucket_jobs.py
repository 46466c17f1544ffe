"""Documents over HTTP in a deployment: they reach the bucket, and one run begins."""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from docstokg.adapters.aws.stepfunctions_runs import StepFunctionsRuns
from docstokg.adapters.sqlite.documents import SqliteRegister
from docstokg.contracts.documents import CANCELLED, MAX_QUEUED
from docstokg.contracts.envelope import Reply
from docstokg.contracts.records import DocumentRecord
from docstokg.errors import Misconfigured
from docstokg.loading.run.lease import LEASES
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_functions.documents.handler import build
from infra.ingestion import LATE_H, WATCH_LOADS
from infra.observability import RUNNING
from tests.builders import eventually
from tests.envelopes import event

REGION = "eu-central-1"
BUCKET = "documents-of-dev"
PASSES = {"StartAt": "End", "States": {"End": {"Type": "Pass", "End": True}}}
FAILS = {"StartAt": "End", "States": {"End": {"Type": "Fail", "Error": "Locked"}}}
LOADER = {"sub": "l", "namespaces": ["default"], "groups": ["staff"], "load": ["default"]}


class Deployment:
    """A bucket, a machine that does nothing, and the function of documents between them."""

    def __init__(self, folder: Path, definition: dict[str, Any]) -> None:
        session = boto3.session.Session(region_name=REGION)
        self.s3, self.states = session.client("s3"), session.client("stepfunctions")
        self.s3.create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        machine = self.states.create_state_machine(
            name="docstokg-dev-ingest",
            definition=json.dumps(definition),
            roleArn="arn:aws:iam::123456789012:role/ingest",
        )
        self.arn = machine["stateMachineArn"]
        settings = Settings(
            index_url=f"sqlite:///{folder / 'index.sqlite'}",
            graph_url=f"sqlite:///{folder / 'graph.sqlite'}",
            cache_dir=str(folder),
            ingest_url=f"s3://{BUCKET}",
            ingest_machine_arn=self.arn,
            load_schedule_role="arn:aws:iam::123456789012:role/schedules",
            embed_provider="none",
            sparse="none",
            names="rule",
        )
        register = SqliteRegister(folder / "index.sqlite")
        register.put(
            [
                DocumentRecord(namespace="default", doc_id="old.md"),
                DocumentRecord(namespace="default", doc_id="hidden.md", acl=("board",)),
            ]
        )
        self.lines: list[str] = []
        self.wiring = Wiring(settings, Telemetry(write=self.lines.append))
        self.handler = build(self.wiring)

    def send(self, route: str, body: dict[str, Any], job: str = "job-1", **caller: Any) -> Reply:
        request = event(body, route, LOADER | caller, job)
        return Reply.model_validate(self.handler(request, None))

    def keys(self) -> list[str]:
        contents = self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [item["Key"] for item in contents]

    def read(self, key: str) -> bytes:
        body: bytes = self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        return body

    def execution(self, job: str) -> str:
        return self.arn.replace(":stateMachine:", ":execution:") + f":{job}"

    def run_input(self, job: str = "job-1") -> dict[str, Any]:
        described = self.states.describe_execution(executionArn=self.execution(job))
        return dict(json.loads(described["input"]))

    def job(self, job: str = "job-1") -> dict[str, Any]:
        return dict(json.loads(self.send("job", {"id": job}).body))

    def finished_job(self, job: str) -> dict[str, Any]:
        """The job once its run has ended."""
        eventually(lambda: self.job(job)["state"] != "running", 60)
        return self.job(job)


@pytest.fixture
def deployment(aws: Any, tmp_path: Path) -> Iterator[Deployment]:
    deployed = Deployment(tmp_path, PASSES)
    yield deployed
    deployed.wiring.close()


def posted(*ids: str, **fields: Any) -> dict[str, Any]:
    return {
        "documents": [{"doc_id": doc_id, "text": f"Text of {doc_id}."} for doc_id in ids],
        **fields,
    }


def test_sent_documents_reach_the_bucket_and_start_runs(deployment: Deployment) -> None:
    body = posted("a/b.md")
    body["documents"].append(
        {
            "doc_id": "über $x.pdf",
            "content": base64.b64encode(b"%PDF-1.7").decode(),
            "media_type": "application/pdf",
            "title": "T",
            "acl": ["staff"],
            "metadata": {"k": 1},
        }
    )
    reply = deployment.send("load", body)
    assert reply.statusCode == 202, reply.body
    assert json.loads(reply.body) == {"job_id": "job-1"}
    assert sorted(deployment.keys()) == [
        "inbox/default/job-1/a/b.md",
        "inbox/default/job-1/über $x.pdf",
        "posted/default/job-1.json",
    ]
    assert deployment.read("inbox/default/job-1/a/b.md") == b"Text of a/b.md."
    assert deployment.read("inbox/default/job-1/über $x.pdf") == b"%PDF-1.7"
    documents = json.loads(deployment.read("posted/default/job-1.json"))["documents"]
    assert documents == {
        "a/b.md": {"title": None, "acl": None, "metadata": {}, "media_type": None, "text": True},
        "über $x.pdf": {
            "title": "T",
            "acl": ["staff"],
            "metadata": {"k": 1},
            "media_type": "application/pdf",
            "text": False,
        },
    }
    assert deployment.run_input() == {
        "run_id": "job-1",
        "kind": "load",
        "namespace": "default",
        "bucket": BUCKET,
        "prefix": "inbox/default/job-1/",
        "sync": False,
        "max_removed": 0,
        "remove": [],
        "replace": False,
        "groups": ["staff"],
        "small": True,
    }
    job = deployment.job()
    assert (job["state"], job["kind"], job["namespace"]) == ("running", "load", "default")


@pytest.mark.parametrize(
    ("route", "body", "caller", "status"),
    [
        ("load", posted("x.md"), {"load": []}, 403),
        ("load", posted("x.md"), {"namespaces": []}, 403),
        ("load", posted("old.md"), {}, 409),
        ("load", posted("hidden.md", replace=True), {}, 404),
        ("load", posted("../x.md"), {}, 400),
        ("load", posted("x.md", "x.md"), {}, 400),
        ("load", posted(*(f"{n}.md" for n in range(101))), {}, 413),
        ("load", {"documents": [{"doc_id": "x", "text": "x" * (4 << 20)}]}, {}, 413),
        ("delete", {"doc_id": "hidden.md"}, {}, 404),
        ("delete", {"doc_id": "gone.md"}, {}, 404),
        ("delete", {"doc_id": "old.md"}, {"load": ["other"]}, 403),
        ("job", {"id": "nobody"}, {}, 404),
        ("job", {"id": "a:b/../<c>"}, {}, 404),
    ],
)
def test_refused_requests_leave_nothing_in_the_bucket(
    deployment: Deployment, route: str, body: dict[str, Any], caller: dict[str, Any], status: int
) -> None:
    reply = deployment.send(route, body, **caller)
    assert reply.statusCode == status, reply.body
    assert deployment.keys() == []
    assert deployment.states.list_executions(stateMachineArn=deployment.arn)["executions"] == []


def test_runs_record_replacing_and_fit_the_largest_request(deployment: Deployment) -> None:
    assert deployment.send("load", posted("old.md", replace=True)).statusCode == 202
    assert deployment.run_input()["replace"] is True
    long = [f"{n:03}{'ü' * 254}" for n in range(100)]
    reply = deployment.send("load", posted(*long), "job-2")
    assert reply.statusCode == 202, reply.body
    assert len(json.dumps(deployment.run_input("job-2"))) < 262_144
    assert len(deployment.keys()) == 103


def test_another_callers_job_is_not_there(deployment: Deployment) -> None:
    deployment.send("load", posted("x.md"))
    for stranger in ({"load": ["other"]}, {"namespaces": ["other"], "load": ["*"]}):
        assert deployment.send("job", {"id": "job-1"}, **stranger).statusCode == 404
    assert deployment.send("job", {"id": "job-1"}, load=["*"]).statusCode == 200


@pytest.mark.parametrize(("holder", "stays"), [("job-1", False), ("job-2", True)])
def test_cancelled_runs_stop_and_let_the_next_begin(
    deployment: Deployment, holder: str, stays: bool
) -> None:
    deployment.send("load", posted("x.md"))
    lease, other = f"{LEASES}default.json", f"{LEASES}other.json"
    for key, run_id in ((lease, holder), (other, "job-1")):
        deployment.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps({"run_id": run_id}))
    assert deployment.send("cancel", {"id": "job-1"}, load=["other"]).statusCode == 404
    assert deployment.job()["state"] == "running"
    reply = deployment.send("cancel", {"id": "job-1"})
    assert (reply.statusCode, json.loads(reply.body)["reason"]) == (200, CANCELLED)
    assert deployment.finished_job("job-1")["state"] == "failed"
    keys = deployment.keys()
    assert ((lease in keys), (other in keys)) == (stays, True)


def test_ten_runs_of_a_namespace_are_enough(deployment: Deployment) -> None:
    both = {"namespaces": ["*"], "load": ["*"]}
    for number in range(MAX_QUEUED):
        body = posted(f"{number}.md", namespace="other" if number else "default")
        assert deployment.send("load", body, f"job-{number}", **both).statusCode == 202
    # Nine of that namespace and one of another: there is room for a tenth.
    assert (
        deployment.send("load", posted("a", namespace="other"), "tenth", **both).statusCode == 202
    )
    before = deployment.keys()
    reply = deployment.send("load", posted("b", namespace="other"), "eleventh", **both)
    assert (reply.statusCode, reply.headers["Retry-After"]) == (429, "5")
    assert deployment.keys() == before
    assert deployment.send("load", posted("c.md"), "elsewhere", **both).statusCode == 202


@pytest.mark.parametrize(("definition", "state"), [(PASSES, "done"), (FAILS, "failed")])
def test_a_finished_run_returns_its_report(
    credentials: None, tmp_path: Path, definition: dict[str, Any], state: str
) -> None:
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        deployment = Deployment(tmp_path, definition)
        report = {
            "loaded": 1,
            "removed": 0,
            "rejected": [{"doc_id": "b.pdf", "reason": "cannot be read"}],
            "reason": "",
        }
        deployment.s3.put_object(
            Bucket=BUCKET, Key="runs/job-1/report.json", Body=json.dumps(report).encode()
        )
        for job in ("job-1", "job-2"):
            deployment.send("load", posted("x.md"), job)
        job_report = deployment.finished_job("job-1")
        assert (job_report["state"], job_report["loaded"]) == (state, 1)
        assert job_report["rejected"] == [{"doc_id": "b.pdf", "reason": "cannot be read"}]
        silent = deployment.finished_job("job-2")
        assert (silent["state"], silent["loaded"], silent["rejected"]) == (state, 0, [])
        assert bool(silent["reason"]) == (state == "failed")
        deployment.wiring.close()


def test_lost_machines_and_buckets_have_distinct_errors(
    deployment: Deployment, tmp_path: Path
) -> None:
    deployment.states.delete_state_machine(stateMachineArn=deployment.arn)
    reply = deployment.send("load", posted("x.md"))
    assert reply.statusCode == 503, reply.body
    with pytest.raises(Misconfigured, match="INGEST_URL"):
        Wiring(Settings(ingest_url="https://x")).object_store()


def test_a_run_begins_once(deployment: Deployment) -> None:
    runs = StepFunctionsRuns(deployment.arn)
    for _ in range(2):
        runs.start("twice", {"namespace": "default"})
    assert list(runs.unfinished()) == ["twice"]
    assert runs.find("none") is None


def test_the_age_of_the_oldest_load_is_measured(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handle the schedule's event, since a load that hangs writes no metric itself."""
    counted: list[tuple[str, float]] = []
    monkeypatch.setattr(
        deployment.wiring.telemetry, "count", lambda name, value: counted.append((name, value))
    )
    handler = build(deployment.wiring)
    assert handler(WATCH_LOADS, None) == {"seconds": 0}
    for name in ("first", "second"):
        StepFunctionsRuns(deployment.arn).start(name, {"namespace": "default"})
    later = time.time() + LATE_H * 3600
    monkeypatch.setattr("docstokg_functions.documents.handler.time.time", lambda: later + 1)
    handler(WATCH_LOADS, None)
    assert [name for name, _ in counted] == [RUNNING] * 2
    assert counted[0][1] == 0
    assert LATE_H * 3600 - 60 < counted[1][1] < LATE_H * 3600 + 60
