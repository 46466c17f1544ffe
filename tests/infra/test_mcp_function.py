"""The MCP function as deployed: it reaches the other routes by AWS calls only."""

import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from docstokg.adapters.aws.appconfig_flags import AppConfigFlags
from docstokg.adapters.aws.lambda_invoke import LambdaRouteFunction
from docstokg.adapters.aws.stepfunctions import StepFunctionsWorkflow
from docstokg.contracts.envelope import Caller, Envelope
from docstokg.errors import QuotaExceeded, Timeout, Unavailable, WrongAnswer
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Handler, Wiring
from docstokg_functions.mcp import handler as mcp
from tests.envelopes import event
from tests.infra.test_aws_adapters import agent  # noqa: F401 - a fixture
from tests.loopback import Loopback

REGION = "eu-central-1"
MACHINE = f"arn:aws:states:{REGION}:111122223333:stateMachine:docstokg-dev:live"
FUNCTION = f"arn:aws:lambda:{REGION}:111122223333:function:docstokg-dev-check:live"
CALLER = Caller(sub="me", namespaces=("a",), groups=("g",))
LONG_S = 30.0
GOOD = {
    "statusCode": 200,
    "body": json.dumps({"citations": [{"rank": 1}, {"rank": 2}]}),
    "headers": {},
}


class Amazon(Loopback):
    """The two services' wire formats on loopback; answers are set by the test."""

    def __init__(self) -> None:
        super().__init__(self._payload_of)
        self.execution: dict[str, Any] = {}
        self.payload = b""

    def _payload_of(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        return self.status, self.execution if "X-Amz-Target" in request.headers else self.payload

    def workflow(self, timeout_s: float = LONG_S) -> StepFunctionsWorkflow:
        return StepFunctionsWorkflow(MACHINE, timeout_s)

    def function(self, timeout_s: float = LONG_S) -> LambdaRouteFunction:
        return LambdaRouteFunction(FUNCTION, timeout_s)


@pytest.fixture
def amazon(credentials: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Amazon]:
    service = Amazon()
    monkeypatch.setenv("AWS_ENDPOINT_URL", service.url)
    monkeypatch.setenv("AWS_DISABLE_HOST_PREFIX_INJECTION", "true")
    yield service
    service.close()


def succeeded(reply: dict[str, Any]) -> dict[str, Any]:
    return {"executionArn": "x", "status": "SUCCEEDED", "output": json.dumps(reply)}


ENVELOPE = Envelope(route="search", request_id="r", caller=CALLER, body_b64="e30=")
ROUTE = Envelope(route="check", request_id="r", caller=CALLER, body_b64="e30=")


@pytest.mark.parametrize(
    ("payload", "function_error", "error"),
    [
        (b'{"errorMessage": "Task timed out after 3.00 seconds"}', "Unhandled", Timeout),
        (b'{"errorMessage": "SECRET", "errorType": "KeyError"}', "Unhandled", Unavailable),
        (b"null", None, WrongAnswer),
        (b"", None, WrongAnswer),
    ],
)
def test_an_invocation_without_a_reply(amazon, payload, function_error, error) -> None:
    amazon.payload = payload
    amazon.headers = {"X-Amz-Function-Error": function_error} if function_error else {}
    with pytest.raises(error) as raised:
        amazon.function().run(ROUTE)
    assert "SECRET" not in str(raised.value)


def test_silence_times_out_and_throttling_is_named(amazon) -> None:
    amazon.waits.clear()
    with pytest.raises(Timeout):
        amazon.function(0.2).run(ROUTE)
    with pytest.raises(Timeout):
        amazon.workflow(0.2).run(ENVELOPE)
    amazon.waits.set()
    amazon.status, amazon.payload = 429, b"{}"
    amazon.headers = {"x-amzn-ErrorType": "TooManyRequestsException"}
    with pytest.raises(QuotaExceeded):
        amazon.function().run(ROUTE)


@pytest.fixture
def deployed(amazon) -> Handler:
    settings = Settings(workflow_arn=MACHINE, route_functions=(f"check={FUNCTION}",))
    ports = {"workflow": amazon.workflow(), "check_function": amazon.function()}
    return mcp.build(Wiring(settings, Telemetry(write=lambda line: None), ports))


def call(handler: Handler, method: str, params: dict[str, Any]) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    reply = handler(event(message, "mcp", CALLER, "r-1"), None)
    assert reply["statusCode"] == 200
    assert reply["headers"]["Content-Type"] == "application/json"
    return json.loads(reply["body"])["result"]


def test_only_deployed_routes_are_tools(deployed) -> None:
    names = [tool["name"] for tool in call(deployed, "tools/list", {})["tools"]]
    searching = ["search_documentation", "answer_with_citations"]
    assert names == [*searching, "check_grounding", "search"]


def test_a_tool_switched_off_is_no_longer_offered(
    amazon: Amazon,
    agent: Loopback,  # noqa: F811
) -> None:
    ports = {
        "flags": AppConfigFlags("a/e/p"),
        "workflow": amazon.workflow(),
        "traverse_function": amazon.function(),
    }
    handler = mcp.build(Wiring(Settings(appconfig="a/e/p"), Telemetry(write=[].append), ports))
    offered = []
    for switch in (True, False):
        agent.answer = {"FEATURE_TRAVERSAL_TOOL": switch}
        offered.append([tool["name"] for tool in call(handler, "tools/list", {})["tools"]])
    searching = ["search_documentation", "answer_with_citations"]
    assert offered == [[*searching, "traverse_relationships", "search"], [*searching, "search"]]


def test_tool_calls_start_the_workflow_as_their_caller(deployed, amazon) -> None:
    amazon.execution = succeeded(GOOD)
    arguments = {"query": "it's \U0001f600", "namespace": "a"}
    whole = {**arguments, "numbers": True, "max_response_tokens": None}
    result = call(deployed, "tools/call", {"name": "search_documentation", "arguments": whole})
    assert json.loads(result["content"][0]["text"])["citations"] == [{"rank": 1}, {"rank": 2}]
    ((_, body),) = amazon.asked
    envelope = Envelope.model_validate_json(json.loads(body)["input"])
    assert (envelope.route, envelope.caller, envelope.request_id) == ("search", CALLER, "r-1")
    assert json.loads(base64.b64decode(envelope.body_b64)) == arguments


@pytest.mark.parametrize(
    ("execution", "error", "status", "code"),
    [
        ({"status": "TIMED_OUT"}, Timeout, 504, "workflow_timeout"),
        ({"status": "FAILED", "cause": "SECRET trace"}, Unavailable, 503, "unavailable"),
        ({"status": "SUCCEEDED", "output": "{}"}, WrongAnswer, 500, "internal_error"),
        ({}, WrongAnswer, 500, "internal_error"),
    ],
)
def test_executions_without_a_reply_are_tool_errors(
    deployed, amazon, execution, error, status, code
) -> None:
    amazon.execution = {"executionArn": "x", **execution}
    with pytest.raises(error) as raised:
        amazon.workflow().run(ENVELOPE)
    assert "SECRET" not in str(raised.value)
    arguments = {"name": "answer_with_citations", "arguments": {"query": "abc"}}
    result = call(deployed, "tools/call", arguments)
    problem = json.loads(result["content"][0]["text"])
    assert result["isError"] is True
    assert (problem["status"], problem["code"], problem["request_id"]) == (status, code, "r-1")
