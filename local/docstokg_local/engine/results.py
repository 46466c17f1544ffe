"""The ResultWriter of a distributed Map: what its children did, in files beside a manifest.

The shapes are those of the Step Functions guide (ResultWriter): `manifest.json` names files by
status, `SUCCEEDED_0.json` and `FAILED_0.json` hold lists of executions whose input and output are
JSON in a string.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sfnx.testing import Failure

from docstokg_local.engine.endings import compact, text_bytes
from docstokg_local.engine.items import Buckets

FILE_BYTES = 32_000_000
STATUSES = ("FAILED", "PENDING", "SUCCEEDED")
_REDRIVE = {
    "FAILED": {"RedriveStatus": "REDRIVABLE"},
    "PENDING": {"RedriveStatus": "REDRIVABLE"},
    "SUCCEEDED": {
        "RedriveStatus": "NOT_REDRIVABLE",
        "RedriveStatusReason": "Execution is SUCCEEDED and cannot be redriven",
    },
}


@dataclass(frozen=True)
class Child:
    """How one child execution ended; times in epoch seconds, PENDING when it was not let end."""

    name: str
    input: Any
    taken: int
    status: Literal["SUCCEEDED", "FAILED", "PENDING"]
    started: float
    stopped: float
    output: Any = None
    error: str = ""
    cause: str = ""

    def result(self) -> Any:
        """Give what stands for the child in the result of a Map without a ResultWriter."""
        if self.status == "SUCCEEDED":
            return self.output
        return {"Status": self.status, "Error": self.error, "Cause": self.cause}


class ResultFiles:
    """Collects children and writes them, at most about 32 MB a file."""

    def __init__(self, writer: Mapping[str, Any], run: tuple[str, str], buckets: Buckets) -> None:
        """`run`: what Step Functions calls the Map, `machine/Label`, and the run's own id."""
        arguments = writer["Arguments"]
        self._bucket_name: str = arguments["Bucket"]
        if self._bucket_name not in buckets:
            raise Failure("States.ResultWriterFailed", f"there is no bucket {self._bucket_name}")
        self._bucket = buckets[self._bucket_name]
        prefix: str = arguments.get("Prefix", "")
        self._folder = f"{prefix.rstrip('/')}/{run[1]}/".lstrip("/")
        self._map, self._run_id = run
        self._waiting: dict[str, list[str]] = {status: [] for status in STATUSES}
        self._sizes = dict.fromkeys(STATUSES, 0)
        self._files: dict[str, list[dict[str, Any]]] = {status: [] for status in STATUSES}

    def add(self, child: Child) -> None:
        """Keep one child; a file that is full is written."""
        text = compact(_record(child, self._map))
        self._waiting[child.status].append(text)
        self._sizes[child.status] += text_bytes(text)
        if self._sizes[child.status] >= FILE_BYTES:
            self._write(child.status)

    def close(self) -> dict[str, Any]:
        """Write what is left and the manifest; give the Map's result."""
        for status in STATUSES:
            if self._waiting[status]:
                self._write(status)
        arn = f"arn:aws:states:us-east-1:123456789012:mapRun:{self._map}:{self._run_id}"
        manifest = {
            "DestinationBucket": self._bucket_name,
            "MapRunArn": arn,
            "ResultFiles": self._files,
        }
        key = f"{self._folder}manifest.json"
        self._bucket.put(key, json.dumps(manifest).encode("utf-8"))
        details = {"Bucket": self._bucket_name, "Key": key}
        return {"MapRunArn": arn, "ResultWriterDetails": details}

    def _write(self, status: str) -> None:
        body = f"[{','.join(self._waiting[status])}]".encode("utf-8", "surrogatepass")
        key = f"{self._folder}{status}_{len(self._files[status])}.json"
        self._bucket.put(key, body)
        self._files[status].append({"Key": key, "Size": len(body)})
        self._waiting[status], self._sizes[status] = [], 0


def _record(child: Child, map_name: str) -> dict[str, Any]:
    record: dict[str, Any] = {
        "ExecutionArn": f"arn:aws:states:us-east-1:123456789012:execution:{map_name}:{child.name}",
        "Input": compact(child.input),
        "InputDetails": {"Included": True},
        "Name": child.name,
        "RedriveCount": 0,
        **_REDRIVE[child.status],
        "StartDate": _instant(child.started),
        "StateMachineArn": f"arn:aws:states:us-east-1:123456789012:stateMachine:{map_name}",
        "Status": child.status,
        "StopDate": _instant(child.stopped),
    }
    if child.status == "SUCCEEDED":
        record |= {"Output": compact(child.output), "OutputDetails": {"Included": True}}
    if child.status == "FAILED":
        record |= {"Error": child.error, "Cause": child.cause}
    return record


def _instant(epoch_s: float) -> str:
    at = datetime.fromtimestamp(epoch_s, UTC).isoformat(timespec="milliseconds")
    return at.replace("+00:00", "Z")
