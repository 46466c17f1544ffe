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

    def forward(self, service: str, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        """Status, body and content type of one request, as the service would answer it."""
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        url = f"https://{service}.{REGION}.amazonaws.com{request.path}"
        answer = requests.request(request.command, url, data=body, headers=headers, timeout=30)
        reply_headers = {name: answer.headers[name] for name in KEPT if name in answer.headers}
        return answer.status_code, answer.content, reply_headers

    def close(self) -> None:
        """Give AWS back to whoever comes after."""
        self._mock.stop()


class LoopbackAws(Loopback):
    """One endpoint for every service; `calls`: its requests, in order."""

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

    def _answer(self, request: BaseHTTPRequestHandler, body: bytes) -> Answer:
        signed = SIGNED.search(request.headers.get("authorization", ""))
        if signed is None:
            return 403, b'{"__type": "MissingAuthenticationToken"}', JSON
        signer, service = signed["key"], signed["service"]
        target = request.headers.get("x-amz-target", "").rpartition(".")[2]
        if service == "states" and target == "StartSyncExecution":
            payload = json.loads(body)
            machine, qualifier = _qualified(payload["stateMachineArn"])
            context = {"states:StateMachineQualifier": qualifier} if qualifier else {}
            self.calls.append((signer, Call("", f"states:{target}", machine, context)))
            return 200, json.dumps(self._start(payload["input"])).encode(), JSON
        if service == "states":
            return self._executed(signer, target, json.loads(body))
        if service == "lambda" and request.path.endswith("/invocations"):
            arn = unquote(request.path.split("/functions/")[1].removesuffix("/invocations"))
            self.calls.append((signer, Call("", "lambda:InvokeFunction", arn)))
            return 200, self._invoke(_qualified(arn)[0].rpartition(":")[2], body), JSON
        if service == "s3":
            self.calls.append((signer, s3_call(request.command, request.path)))
            answer = self._moto.forward(service, request, body)
            # Nobody here may list a whole bucket, and is not told then what is not there.
            return answer if b"<Code>NoSuchKey</Code>" not in answer[1] else FORBIDDEN
        context = _key_context(body) if service == "dynamodb" else {}
        self.calls.append(
            (signer, Call("", f"{service}:{target}", _resource(service, body), context))
        )
        return self._moto.forward(service, request, body)

    def _executed(self, signer: str, target: str, payload: dict[str, Any]) -> Answer:
        """What Step Functions says of a standard machine's executions."""
        arn = payload.get("executionArn") or payload["stateMachineArn"]
        self.calls.append((signer, Call("", f"states:{target}", arn)))
        if self._executions is None and target == "ListExecutions":
            return 200, b'{"executions": []}', JSON
        assert self._executions is not None, target
        if target == "StartExecution":
            self._executions.begin(payload["name"], payload["input"])
            begun = arn.replace(":stateMachine:", ":execution:") + f":{payload['name']}"
            return 200, json.dumps({"executionArn": begun, "startDate": 1.0}).encode(), JSON
        if target == "ListExecutions":
            names = [{"name": name} for name in self._executions.running()]
            return 200, json.dumps({"executions": names}).encode(), JSON
        if target == "StopExecution":
            self._executions.stop(arn.rpartition(":")[2])
            return 200, b'{"stopDate": 1.0}', JSON
        execution = self._executions.find(arn.rpartition(":")[2])
        if execution is None:
            return 400, b'{"__type": "ExecutionDoesNotExist"}', JSON
        description = {"executionArn": arn, "status": execution[0], "input": execution[1]}
        return 200, json.dumps(description).encode(), JSON


def _qualified(arn: str) -> tuple[str, str]:
    """An ARN of seven parts apart from its qualifier."""
    pieces = arn.split(":")
    return ":".join(pieces[:7]), ":".join(pieces[7:])


def _key_context(body: bytes) -> dict[str, str]:
    """The key of an item about an answer in the making; whoever reaches others reaches all."""
    payload = json.loads(body)
    key = str(next(iter((payload.get("Key") or payload["Item"]).values())).get("S"))
    return {"dynamodb:LeadingKeys": key} if key.startswith("told:") else {}


def _resource(service: str, body: bytes) -> str:
    """The ARN a request is about, by each service's own parameter."""
    payload = json.loads(body)
    match service:
        case "dynamodb":
            return f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{payload['TableName']}"
        case "sqs":
            name = payload["QueueUrl"].rpartition("/")[2]
            return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        case "secretsmanager":
            return str(payload["SecretId"])
    raise KeyError(service)


def s3_call(method: str, path: str) -> Call:
    """What S3 asks its policies about a request whose path begins with the bucket."""
    split = urlsplit(path)
    bucket, _, key = unquote(split.path).removeprefix("/").partition("/")
    if key:
        return Call("", f"s3:{S3_ACTIONS[method]}", f"arn:aws:s3:::{bucket}/{key}")
    (prefix,) = parse_qs(split.query, keep_blank_values=True)["prefix"]
    return Call("", "s3:ListBucket", f"arn:aws:s3:::{bucket}", {"s3:prefix": prefix})
