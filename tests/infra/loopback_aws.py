"""AWS on loopback for real functions: every call is recorded with who made it, on what.

DynamoDB, S3, SQS and Secrets Manager are moto's; executions and invocations are handed to whoever
runs the state machines and the functions here. A function
signs with a key id of its own, so the wire itself says whose role made a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
import requests
from moto import mock_aws

from tests.infra.deployed import ACCOUNT, REGION
from tests.infra.iam import Call
from tests.loopback import Loopback

SIGNED = re.compile(r"Credential=(?P<key>[^/]+)/\d+/[\w-]+/(?P<service>[\w-]+)/aws4_request")
Answer = tuple[int, bytes, dict[str, str]]
"""Status, body, headers."""

JSON = {"content-type": "application/x-amz-json-1.0"}
KEPT = ("content-type", "etag", "last-modified")
FORBIDDEN: Answer = (
    403,
    b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
    {"content-type": "application/xml"},
)
S3_ACTIONS = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"}


class Moto:
    """moto in this process, spoken to with the bytes that came over the wire."""

    def __init__(self) -> None:
        self._mock = mock_aws()
        self._mock.start()
        self.session = boto3.session.Session("x", "x", region_name=REGION)

    def forward(self, service: str, asked: BaseHTTPRequestHandler, body: bytes) -> Answer:
        """Status, body and content type of one request, as the service would answer it."""
        headers = {name: value for name, value in asked.headers.items() if name.lower() != "host"}
        url = f"https://{service}.{REGION}.amazonaws.com{asked.path}"
        answer = requests.request(asked.command, url, data=body, headers=headers, timeout=30)
        kept = {name: answer.headers[name] for name in KEPT if name in answer.headers}
        return answer.status_code, answer.content, kept

    def close(self) -> None:
        """Give AWS back to whoever comes after."""
        self._mock.stop()


class LoopbackAws(Loopback):
    """One endpoint for every service; `calls` is what was asked of it, in order."""

    def __init__(
        self,
        moto: Moto,
        *,
        start: Callable[[str], dict[str, Any]],
        invoke: Callable[[str, bytes], bytes],
        executions: Any = None,
    ) -> None:
        """`start`: input of an execution -> outcome; `invoke`: function's name, event -> answer.

        `executions`: of the standard machine, where there is one: it can `begin`, name those
        `running`, `find` status and input by name, and `stop`.
        """
        self.calls: list[tuple[str, Call]] = []
        self._start, self._invoke, self._moto = start, invoke, moto
        self._executions = executions
        super().__init__(self._answer)

    def _answer(self, asked: BaseHTTPRequestHandler, body: bytes) -> Answer:
        signed = SIGNED.search(asked.headers.get("authorization", ""))
        if signed is None:
            return 403, b'{"__type": "MissingAuthenticationToken"}', JSON
        who, service = signed["key"], signed["service"]
        target = asked.headers.get("x-amz-target", "").rpartition(".")[2]
        if service == "states" and target == "StartSyncExecution":
            given = json.loads(body)
            machine, _, qualifier = _qualified(given["stateMachineArn"], 7)
            context = {"states:StateMachineQualifier": qualifier} if qualifier else {}
            self.calls.append((who, Call("", f"states:{target}", machine, context)))
            return 200, json.dumps(self._start(given["input"])).encode(), JSON
        if service == "states":
            return self._executed(who, target, json.loads(body))
        if service == "lambda" and asked.path.endswith("/invocations"):
            arn = unquote(asked.path.split("/functions/")[1].removesuffix("/invocations"))
            self.calls.append((who, Call("", "lambda:InvokeFunction", arn)))
            return 200, self._invoke(_qualified(arn, 7)[0].rpartition(":")[2], body), JSON
        if service == "s3":
            self.calls.append((who, s3_call(asked.command, asked.path)))
            answer = self._moto.forward(service, asked, body)
            # Nobody here may list a whole bucket, and is not told then what is not there.
            return answer if b"<Code>NoSuchKey</Code>" not in answer[1] else FORBIDDEN
        context = _told(body) if service == "dynamodb" else {}
        self.calls.append((who, Call("", f"{service}:{target}", _resource(service, body), context)))
        return self._moto.forward(service, asked, body)

    def _executed(self, who: str, target: str, given: dict[str, Any]) -> Answer:
        """What Step Functions says of a standard machine's executions."""
        arn = given.get("executionArn") or given["stateMachineArn"]
        self.calls.append((who, Call("", f"states:{target}", arn)))
        if self._executions is None and target == "ListExecutions":
            return 200, b'{"executions": []}', JSON
        assert self._executions is not None, target
        if target == "StartExecution":
            self._executions.begin(given["name"], given["input"])
            begun = arn.replace(":stateMachine:", ":execution:") + f":{given['name']}"
            return 200, json.dumps({"executionArn": begun, "startDate": 1.0}).encode(), JSON
        if target == "ListExecutions":
            names = [{"name": name} for name in self._executions.running()]
            return 200, json.dumps({"executions": names}).encode(), JSON
        if target == "StopExecution":
            self._executions.stop(arn.rpartition(":")[2])
            return 200, b'{"stopDate": 1.0}', JSON
        found = self._executions.find(arn.rpartition(":")[2])
        if found is None:
            return 400, b'{"__type": "ExecutionDoesNotExist"}', JSON
        told = {"executionArn": arn, "status": found[0], "input": found[1]}
        return 200, json.dumps(told).encode(), JSON


def _qualified(arn: str, parts: int) -> tuple[str, str, str]:
    """An ARN of `parts` parts apart from its qualifier."""
    found = arn.split(":")
    return ":".join(found[:parts]), ":", ":".join(found[parts:])


def _told(body: bytes) -> dict[str, str]:
    """The key of an item about an answer in the making; whoever reaches others reaches all."""
    given = json.loads(body)
    key = str(next(iter((given.get("Key") or given["Item"]).values())).get("S"))
    return {"dynamodb:LeadingKeys": key} if key.startswith("told:") else {}


def _resource(service: str, body: bytes) -> str:
    """The ARN a request is about, by each service's own parameter."""
    given = json.loads(body)
    match service:
        case "dynamodb":
            return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{given['TableName']}"
        case "sqs":
            name = given["QueueUrl"].rpartition("/")[2]
            return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        case "secretsmanager":
            return str(given["SecretId"])
    raise KeyError(service)


def s3_call(method: str, path: str) -> Call:
    """What S3 asks its policies about a request whose path begins with the bucket."""
    split = urlsplit(path)
    bucket, _, key = unquote(split.path).removeprefix("/").partition("/")
    if key:
        return Call("", f"s3:{S3_ACTIONS[method]}", f"arn:aws:s3:::{bucket}/{key}")
    (prefix,) = parse_qs(split.query, keep_blank_values=True)["prefix"]
    return Call("", "s3:ListBucket", f"arn:aws:s3:::{bucket}", {"s3:prefix": prefix})
