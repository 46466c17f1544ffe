"""An account of AWS on this machine: the emulator, the CDK command line against it, its clients."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import time
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import boto3
from botocore.config import Config

from infra.promote import outputs_of
from infra.specs import ROOT
from tests.builders import ran
from tests.jvm.processes import free_port

ACCOUNT, REGION = "111122223333", "eu-central-1"
CDK = "aws-cdk@2.1148.1"
READY_S = 60.0


class Account:
    """One emulated account; `close` ends it and its folder goes with it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        # boto3's default session is not safe for threads that create clients.
        self._creation = Lock()
        self.url = f"http://127.0.0.1:{self.port}"
        self.variables = {
            "AWS_ENDPOINT_URL": self.url,
            # The account is read out of the key.
            "AWS_ACCESS_KEY_ID": ACCOUNT,
            "AWS_SECRET_ACCESS_KEY": "emulated",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
        }
        lookup = ran(ROOT / "scripts" / "find-tool", "emulator", "python", check=True)
        (folder / "tmp").mkdir(parents=True)
        with (folder / "emulator.log").open("w") as log:
            self._process = subprocess.Popen(
                [lookup.stdout.strip(), "-m", "ministack"],
                cwd=folder,
                stdout=log,
                stderr=log,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(folder),
                    "TMPDIR": str(folder / "tmp"),
                    "STATE_DIR": str(folder / "state"),
                    "S3_DATA_DIR": str(folder / "s3"),
                    # Else it listens on every address, and on one more port.
                    "BIND_HOST": "127.0.0.1",
                    "IOT_MTLS_ENABLED": "0",
                    "GATEWAY_PORT": str(self.port),
                    "MINISTACK_ACCOUNT_ID": ACCOUNT,
                    "MINISTACK_REGION": REGION,
                    "AWS_DEFAULT_REGION": REGION,
                    "OMP_NUM_THREADS": "1",
                },
            )
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + READY_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/_ministack/health", timeout=2):
                    return
            except OSError as away:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"the emulator does not start: {away}; {self.log()}") from away
                time.sleep(0.2)

    def log(self) -> str:
        """Return the end of the emulator's output."""
        return (self.folder / "emulator.log").read_text("utf-8", "replace")[-2000:]

    def client(self, service: str) -> Any:
        """boto3's client of a service of this account."""
        return self._create(boto3.client, service)

    def resource(self, service: str) -> Any:
        """boto3's resource of a service of this account."""
        return self._create(boto3.resource, service)

    def _create(self, make: Any, service: str) -> Any:
        config = Config(
            inject_host_prefix=False,
            retries={"max_attempts": 0},
            read_timeout=900,
            s3={"addressing_style": "path"},
        )
        with self._creation:
            return make(
                service,
                endpoint_url=self.url,
                region_name=REGION,
                aws_access_key_id=ACCOUNT,
                aws_secret_access_key="emulated",
                config=config,
            )

    def cdk(self, *arguments: str, fails: bool = False) -> str:
        """Run the CDK command line as in the guide; return its output."""
        npx = shutil.which("npx")
        if npx is None:
            raise SystemExit("the CDK command line needs Node: npx is not there")
        done = ran(
            *(npx, "--yes", CDK, *arguments),
            cwd=ROOT,
            env={
                **os.environ,
                **self.variables,
                "CI": "1",
                "TMPDIR": str(self.folder / "tmp"),
                "AWS_S3_FORCE_PATH_STYLE": "true",
                "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
            },
        )
        text = done.stdout + done.stderr
        if (done.returncode != 0) != fails:
            raise SystemExit(f"cdk {' '.join(arguments)}: {text[-4000:]}")
        return text

    def publish(self, assembly: Path, stack: str) -> int:
        """Put a stack's code where the CDK command line looks before it packs it; bytes written.

        The command line packs two hundred megabytes a function much more slowly than this does.
        """
        s3 = self.client("s3")
        files = json.loads((assembly / f"{stack}.assets.json").read_text("utf-8"))["files"]
        size = 0
        for entry in files.values():
            if entry["source"]["packaging"] != "zip":
                continue
            (at,) = entry["destinations"].values()
            bucket = at["bucketName"].replace("${AWS::AccountId}", ACCOUNT)
            bucket = bucket.replace("${AWS::Region}", REGION)
            listed = s3.list_objects_v2(Bucket=bucket, Prefix=at["objectKey"])
            if listed["KeyCount"]:
                continue
            body = packed(assembly / entry["source"]["path"])
            s3.put_object(Bucket=bucket, Key=at["objectKey"], Body=body)
            size += len(body)
        return size

    def resources(self, stack: str) -> Mapping[str, int]:
        """How many resources of a stack are in which state."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources")
        return Counter(
            pages.paginate(StackName=stack).search("StackResourceSummaries[].ResourceStatus")
        )

    def outputs(self, stack: str) -> dict[str, str]:
        """Return the outputs of a stack."""
        return dict(outputs_of(self.client("cloudformation"), stack) or {})

    def close(self) -> None:
        """End the emulator, and the functions it runs."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_live(states: Any, alias: str, input_json: str = "{}") -> dict[str, Any]:
    """Execute the version with most of an alias's traffic; return the service's description.

    The emulator itself executes the machine's newest definition, whichever version is asked.
    """
    routes = states.describe_state_machine_alias(stateMachineAliasArn=alias)["routingConfiguration"]
    version = max(routes, key=lambda route: route["weight"])["stateMachineVersionArn"]
    machine = states.describe_state_machine(stateMachineArn=version)
    copy = states.create_state_machine(
        name=f"version-{time.monotonic_ns()}",
        **{name: machine[name] for name in ("definition", "roleArn", "type")},
    )["stateMachineArn"]
    try:
        return dict(states.start_sync_execution(stateMachineArn=copy, input=input_json))
    finally:
        states.delete_state_machine(stateMachineArn=copy)


def packed(folder: Path) -> bytes:
    """A folder as a zip, packed as fast as can be."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(folder))
    return body.getvalue()
