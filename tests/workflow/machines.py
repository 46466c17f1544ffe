"""Small Standard machines, and a bucket in memory that pages as S3 does."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from docstokg.ports import StoredObject
from docstokg_local.engine.engine import Execution, Standard, StateMachine

PAGE = 1000
BUCKET = "bucket"


class MemoryBucket:
    """Counts its pages, so that a test sees that more than one was read."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.pages = 0

    def list(self, prefix: str, after: str = "") -> list[StoredObject]:
        self.pages += 1
        # The copy is one step: threads write while others list.
        keys = sorted(
            (
                k
                for k in tuple(self.objects)
                if k.startswith(prefix) and k.encode() > after.encode()
            ),
            key=str.encode,
        )
        return [
            StoredObject(key, len(body), hashlib.md5(body).hexdigest(), 1.5)
            for key in keys[:PAGE]
            for body in [self.objects[key]]
        ]

    def get(self, key: str) -> bytes:
        return self.objects[key]

    def put(self, key: str, body: bytes, *, if_absent: bool = False) -> bool:
        if if_absent and key in self.objects:
            return False
        self.objects[key] = body
        return True

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)


def task(function: str = "F", **fields: Any) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Arguments": {"FunctionName": "${" + function + "}", "Payload": "{% $states.input %}"},
        "Output": "{% $states.result.Payload %}",
        "End": True,
        **fields,
    }


def mapped(states: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A distributed Map whose children run `states`, or one task when there are none."""
    inner = dict(states or {"Work": task()})
    return {
        "Type": "Map",
        "ItemProcessor": {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": next(iter(inner)),
            "States": inner,
        },
        "End": True,
        **fields,
    }


LISTED = {
    "Resource": "arn:aws:states:::s3:listObjectsV2",
    "Arguments": {"Bucket": BUCKET, "Prefix": "in/"},
}
WRITER = {
    "Resource": "arn:aws:states:::s3:putObject",
    "Arguments": {"Bucket": BUCKET, "Prefix": "out"},
}


def definition(**states: Mapping[str, Any]) -> dict[str, Any]:
    """A machine that starts at the first state."""
    return {"QueryLanguage": "JSONata", "StartAt": next(iter(states)), "States": dict(states)}


def run(
    states: Mapping[str, Mapping[str, Any]],
    functions: Mapping[str, Callable[..., Any]] | None = None,
    execution_input: Any = None,
    **standard: Any,
) -> Execution:
    """Run a Standard machine; functions get the payload alone, and no try waits."""
    table = {name: (lambda payload, _, f=f: f(payload)) for name, f in (functions or {}).items()}
    kind = Standard(**{"pause": lambda _: None, **standard})
    return StateMachine(definition(**states), table, standard=kind).execute(execution_input)
