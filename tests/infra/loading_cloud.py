"""The functions that load an environment, as deployed, under the machine that loads.

The machine is sfnx with the definition of the repository; what it lists itself is in the table
of tests/infra/service_calls.py, as AWS does it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from docstokg.adapters.aws.s3_objects import S3Objects
from infra.specs import STAGES
from tests.envelopes import event
from tests.infra.cloud import Cloud
from tests.infra.loopback_aws import Moto
from tests.infra.service_calls import bucket_of
from tests.ingest_runner import run_ingest

NAMESPACE = "default"
SENDER = {"sub": "s", "namespaces": [NAMESPACE], "groups": ["*"], "load": [NAMESPACE]}
PATIENCE_S = 120.0


class Runs:
    """Executions of the loading machine, a thread each."""

    def __init__(self, cloud: LoadingCloud) -> None:
        self._cloud = cloud
        self.began: dict[str, list[str]] = {}
        self.aborting: set[str] = set()
        self.hanging: set[str] = set()

    def begin(self, name: str, input_text: str) -> None:
        self.began[name] = ["RUNNING", input_text]
        if name in self.hanging:
            return
        threading.Thread(target=self._run, args=(name, input_text), daemon=True).start()

    def running(self) -> list[str]:
        return [name for name, (status, _) in self.began.items() if status == "RUNNING"]

    def find(self, name: str) -> tuple[str, str] | None:
        status, input_text = self.began.get(name, ("", ""))
        return (status, input_text) if status else None

    def stop(self, name: str) -> None:
        self.began[name][0] = "ABORTED"

    def _run(self, name: str, input_text: str) -> None:
        if name in self.aborting:
            self.began[name][0] = "ABORTED"
            return
        status = "FAILED"
        try:
            status = self._cloud.run(json.loads(input_text))
        finally:
            self.began[name][0] = status


class LoadingCloud(Cloud):
    """Six stages and the documents function, a bucket, and nothing that answers questions."""

    def __init__(self, *arguments: Any) -> None:
        self.executions = self.runs = Runs(self)
        self.said: list[str] = []
        self.jobs: dict[str, dict[str, Any]] = {}
        super().__init__(*arguments)

    def served(self) -> list[str]:
        return ["documents", *(spec.name for spec in STAGES)]

    def _make(self, moto: Moto) -> None:
        super()._make(moto)
        self.bucket = self.deployed.ref(bucket_of(self.deployed, "Intake"))
        moto.session.client("s3").create_bucket(
            Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
        )
        # Of this process, which is the machine: moto's own, no call of a function.
        self.objects = S3Objects(self.bucket)

    def run(self, run_input: Mapping[str, Any]) -> str:
        """Run the machine once; its status."""
        functions = {spec.substitution: self._stage(spec.name) for spec in STAGES}
        execution = run_ingest(functions, self.objects, run_input)
        self.said.append(
            f"{run_input['run_id']}: {execution.status} {execution.error} {execution.cause}"
        )
        return execution.status

    def _stage(self, name: str) -> Any:
        return lambda event, _: self.fleet.invoke(name, event)

    def sources(self, run_id: str, **fields: Any) -> dict[str, Any]:
        """The input of an operator's run over all sources of the namespace."""
        base = {"run_id": run_id, "namespace": NAMESPACE, "bucket": self.bucket}
        return {
            **base,
            **{"prefix": f"sources/{NAMESPACE}/", "sync": True, "max_removed": 0, "remove": []},
            **fields,
        }

    def report(self, run_id: str) -> dict[str, Any]:
        return dict(json.loads(self.objects.get(f"runs/{run_id}/report.json")))

    def request(self, route: str, body: dict[str, Any], job: str) -> tuple[int, dict[str, Any]]:
        """Status and body of one request to the documents function."""
        reply = self.fleet.invoke("documents", event(body, route, SENDER, job))
        return reply["statusCode"], json.loads(reply["body"])

    def send(self, route: str, body: dict[str, Any], job: str) -> None:
        """Begin a job, and keep its report after its run has ended."""
        status, reply = self.request(route, body, job)
        assert status == 202, reply
        self.jobs[job] = self._finished(job)

    def _finished(self, job: str) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S
        while True:
            status, reply = self.request("job", {"id": job}, f"asked-{job}")
            assert status == 200, reply
            if reply["state"] != "running":
                return reply
            assert time.monotonic() < until, self.said
            time.sleep(0.1)
