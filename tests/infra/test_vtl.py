"""Any body, any caller, any outcome: right status, valid JSON, nothing leaked."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstokg.contracts.chat import ErrorReply
from docstokg.contracts.envelope import Caller, Envelope
from docstokg.contracts.routes import MAX_DOCUMENTS_BYTES, route_of
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_functions.authorize.authorize import encode_caller
from docstokg_functions.stream.request import envelope_of
from docstokg_local.engine.workflow import LocalWorkflow
from infra import templates
from tests.builders import settings_at
from tests.infra.gateway import render_execution, render_request, render_response

ALIAS = "arn:aws:states:eu-central-1:111122223333:stateMachine:docstokg-dev:live"
USER = "arn:aws:sts::111122223333:assumed-role/Reader/someone@example.com"
STATE_LIMIT = 262_144
JWT = templates.caller("jwt")
NASTY = [
    '{"query":"What\'s HP:0001250?"}',
    '{"query":"a@@,@@role@@:@@admin"}',
    '{"query":"line\\nbreak \\"quoted\\" \\\\ ünï 😀 𝔘𝔫𝔦"}',
    "line\nbreak\r\n\ttab",
    '$util.escapeJavaScript("x") #set($x = 1) $context.requestId ${x} #end',
    '","caller":{"namespaces":["*"]},"x":"',
    "not json",
    "",
    "\u0000\u0001\u007f\u2028",
]
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=2000)
bodies = st.sampled_from(NASTY) | any_text
callers = st.builds(
    Caller,
    sub=any_text,
    namespaces=st.lists(any_text, max_size=5).map(tuple),
    groups=st.lists(any_text, max_size=5).map(tuple),
)


def context(caller: Caller) -> dict[str, object]:
    return {
        "requestId": "req-1",
        "authorizer": {"caller": encode_caller(caller)},
        "identity": {"userArn": USER},
    }


def start(body: str, caller: Caller) -> tuple[dict[str, str], dict[str, object]]:
    template = templates.request_workflow("answer", ALIAS, JWT)
    request = render_request(template, body, context(caller))
    return request, json.loads(request["input"])


READER = Caller(sub="o'neil", namespaces=("default",), groups=("staff",))


@given(body=bodies, caller=callers)
@settings(max_examples=120, deadline=None)
def test_any_body_and_caller_survive_the_workflow_template(body: str, caller: Caller) -> None:
    request, raw = start(body, caller)
    assert request["stateMachineArn"] == ALIAS
    envelope = Envelope.model_validate(raw)
    assert base64.b64decode(envelope.body_b64).decode() == body
    assert envelope.caller == caller
    assert envelope.request_id == "req-1"
    # The function `stream` reads the same of the gateway's own event.
    sent = {"headers": {"content-type": "application/json; charset=utf-8"}, "body": body}
    received = envelope_of({**sent, "requestContext": context(caller)}, [])
    assert received == envelope.model_copy(update={"route": "stream"})


@pytest.mark.parametrize("character", ["x", "é", "語", "😀"])
@pytest.mark.parametrize("byte_count", [65_536, 65_540, 200_000, 1_000_000])
def test_validate_still_refuses_a_large_body_cut_short(character: str, byte_count: int) -> None:
    body = character * (byte_count // len(character.encode()))
    request, envelope = start(body, READER)
    sent = base64.b64decode(str(envelope["body_b64"]))
    size = len(body.encode())
    assert (len(sent) > 65_536) == (size > 65_536)
    assert body.encode().startswith(sent)
    assert len(request["input"].encode()) < STATE_LIMIT


def test_iam_callers_are_their_role_with_configured_namespaces() -> None:
    template = templates.request_workflow("search", ALIAS, templates.caller("iam", ("a", "b")))
    request = render_request(template, "{}", context(READER))
    envelope = Envelope.model_validate(json.loads(request["input"]))
    assert envelope.route == "search"
    role = USER.rsplit("/", 1)[0]
    # The session's name changes with each session; budgets and the cache go by the role.
    assert envelope.caller == Caller(sub=role, namespaces=("a", "b"), groups=())
    request_context = {"identity": {"userArn": USER}, "requestId": "r"}
    sent = {"headers": {"Content-Type": "application/json"}, "requestContext": request_context}
    received = envelope_of(sent, ["a", "b"])
    assert isinstance(received, Envelope) and received.caller == envelope.caller
    template = templates.request_function("load", templates.caller("iam", ("*",), ("a",)))
    envelope = Envelope.model_validate(render_request(template, "{}", context(READER)))
    assert envelope.caller == Caller(sub=role, namespaces=("*",), load=("a",))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"namespace": "default"},
        {"namespace": "default", "cursor": "a.b=="},
        {"namespace": """it's "quoted" \\ $util #set 日本 /""", "unknown": "x"},
        {"cursor": ""},
    ],
)
def test_parameters_become_the_body_whatever_they_hold(parameters: dict[str, str]) -> None:
    template = templates.request_function("documents", JWT, ("namespace", "cursor"))
    envelope = Envelope.model_validate(render_request(template, "", context(READER), parameters))
    expected = {name: value for name, value in parameters.items() if value and name != "unknown"}
    assert json.loads(base64.b64decode(envelope.body_b64)) == expected
    assert envelope.route == "documents"


@pytest.mark.parametrize("value", ["tools/call", "o'neil", '"quoted" \\ $util #set', ""])
def test_protocol_headers_reach_mcp_and_no_others(value: str) -> None:
    sent = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Name": value, "Authorization": "secret"}
    for route, expected in (
        ("mcp", {"MCP-Protocol-Version": "2026-07-28", "Mcp-Name": value}),
        ("check", None),
    ):
        template = templates.request_function(route, JWT)
        rendered = render_request(template, "{}", context(READER), None, None, sent)
        assert Envelope.model_validate(rendered).headers == expected
    template = templates.request_function("mcp", JWT)
    rendered = render_request(template, "{}", context(READER))
    assert Envelope.model_validate(rendered).headers == {}


IDS = ["a.md", "a/b c.md", "ü/日本.md", "50%.md", "a+b.md", 'it\'s "x" $q #set', "x?y&z"]


@pytest.mark.parametrize("doc_id", IDS)
def test_an_encoded_path_segment_names_a_document(doc_id: str) -> None:
    template = templates.request_function("delete", JWT, ("namespace", "doc_id"))
    segment = quote(doc_id, safe="+")
    raw = render_request(template, "", context(READER), {"namespace": "n"}, {"doc_id": segment})
    body = json.loads(base64.b64decode(Envelope.model_validate(raw).body_b64))
    assert body == {"namespace": "n", "doc_id": doc_id}
    # What stands in the query string under that name is not what is removed.
    query = {"doc_id": "other"}
    raw = render_request(template, "", context(READER), query, {"doc_id": segment})
    assert json.loads(base64.b64decode(raw["body_b64"])) == {"doc_id": doc_id}


@pytest.mark.parametrize("character", ["x", "語"])
@pytest.mark.parametrize("excess", [0, 4, 1_000_000])
def test_documents_may_be_four_mib_and_no_more(character: str, excess: int) -> None:
    route = route_of("load")
    template = templates.request_function("load", JWT, route.parameters, route.body_bytes)
    body = character * ((MAX_DOCUMENTS_BYTES + excess) // len(character.encode()))
    event = render_request(template, body, context(READER))
    sent = base64.b64decode(event["body_b64"])
    assert (len(sent) > MAX_DOCUMENTS_BYTES) == (len(body.encode()) > MAX_DOCUMENTS_BYTES)
    # Lambda takes 6 MB as the payload of a call that is waited for.
    assert len(json.dumps(event)) < 6_000_000


def succeeded(reply: object) -> dict[str, object]:
    return {"status": "SUCCEEDED", "output": json.dumps(reply)}


SECRET = "/var/task/functions/expand neo4j password hunter2"


def failure(error: str, status: str = "FAILED") -> dict[str, object]:
    return {"status": status, "error": error, "cause": SECRET}


OUTCOMES = {
    "failed": (failure("KeyError"), 500, "workflow_failed"),
    "timed out": ({"status": "TIMED_OUT"}, 504, "workflow_timeout"),
    "own timeout": (failure("States.Timeout"), 504, "workflow_timeout"),
    "throttled inside": (failure("Lambda.TooManyRequestsException"), 429, "throttled"),
    "too much state": (failure("States.DataLimitExceeded"), 500, ""),
    "no reply at all": ({"status": "SUCCEEDED", "output": "{}"}, 500, "workflow_failed"),
    "aborted": (failure("x", "ABORTED"), 500, "workflow_failed"),
}


@pytest.mark.parametrize(("payload", "status", "code"), OUTCOMES.values(), ids=OUTCOMES)
def test_workflows_without_a_reply_are_problems_without_cause(
    payload: dict[str, object], status: int, code: str
) -> None:
    """As a problem, and for clients of the chat format as one of its errors."""
    answer = render_response(templates.response("workflow"), payload)
    assert answer.json["status"] == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert not code or answer.json["code"] == code
    assert answer.json["request_id"] == "req-1"
    assert answer.json["errors"] == []
    chat = render_response(templates.response("workflow", "chat"), payload)
    assert chat.headers["Content-Type"] == "application/json"
    error = ErrorReply.model_validate_json(chat.body).error
    assert not code or error.code == code
    for reply in (answer, chat):
        assert reply.status == status
        assert "hunter2" not in reply.body
        assert ("Retry-After" in reply.headers) == (status == 429)


@pytest.mark.parametrize("status", [200, 400, 403, 409, 413, 429, 500, 503])
def test_a_reply_keeps_status_body_and_headers(status: int) -> None:
    body = {"answer": 'It\'s "x" [1]\n\\ü 😀 $x ${y} #if #end', "status": status}
    headers = {"Retry-After": "7"} if status == 429 else {}
    reply = {"statusCode": status, "body": json.dumps(body), "headers": headers}
    for template, payload in (
        (templates.response("workflow"), succeeded(reply)),
        (templates.response("function"), reply),
    ):
        answer = render_response(template, payload)
        assert answer.status == status
        assert answer.json == body
        media = "application/json" if status < 400 else "application/problem+json"
        assert answer.headers == {"Content-Type": media} | headers


@given(body=any_text)
@settings(max_examples=60, deadline=None)
def test_any_reply_body_comes_out_as_it_was(body: str) -> None:
    reply = {"statusCode": 200, "body": json.dumps({"snippet": body}, ensure_ascii=False)}
    answer = render_response(templates.response("workflow"), succeeded(reply))
    assert answer.json == {"snippet": body}


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        ({"errorType": "KeyError", "errorMessage": "hunter2", "stackTrace": ["/var/task"]}, 500),
        ({"errorMessage": "2026-11-22T01:00:00Z 6f1 Task timed out after 3.00 seconds"}, 504),
        ({"errorType": "Runtime.ExitError"}, 500),
        ({}, 500),
    ],
)
def test_function_errors_are_problems_without_their_message(
    payload: dict[str, object], status: int
) -> None:
    answer = render_response(templates.response("function"), payload)
    assert answer.status == answer.json["status"] == status
    assert "hunter2" not in answer.body
    assert "/var/task" not in answer.body


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        ({"__type": "com.amazonaws.swf.base.model#ThrottlingException", "message": "x"}, 429),
        ({"__type": "TooManyRequestsException"}, 429),
        ({"__type": "AccessDeniedException", "message": f"User {SECRET} is not"}, 500),
        ({"message": "Internal"}, 500),
    ],
)
def test_a_refusal_of_the_service_itself(payload: dict[str, object], status: int) -> None:
    answer = render_response(templates.response("refused"), payload, status=400)
    assert answer.status == answer.json["status"] == status
    assert ("Retry-After" in answer.headers) == (status == 429)
    assert "hunter2" not in answer.body


def test_unknown_paths_and_gateway_answers_are_problems() -> None:
    template = templates.response_unrouted(405, "method_not_allowed", "POST.")
    answer = render_response(template, {"statusCode": 405}, status=405)
    assert answer.json["status"] == answer.status == 405
    template = templates.response_unrouted(404, "not_found", "There is nothing.", chat=True)
    answer = render_response(template, {"statusCode": 404}, status=404)
    assert answer.status == 404
    assert answer.headers["Content-Type"] == "application/json"
    assert ErrorReply.model_validate_json(answer.body).error.code == "not_found"
    text = templates.gateway_problem(413, "body_too_large", "Too large.")
    assert json.loads(text.replace("$context.requestId", "r"))["code"] == "body_too_large"


def test_a_state_machine_problem_is_a_chat_error() -> None:
    problem = {"title": "T", "status": 500, "code": "internal_error", "detail": 'It\'s "x" \\ $y'}
    body = json.dumps({**problem, "request_id": "r", "errors": []})
    headers = {"Content-Type": "application/problem+json"}
    reply = {"statusCode": 500, "body": body, "headers": headers}
    answer = render_response(templates.response("workflow", "models"), succeeded(reply))
    assert answer.json["error"] == {
        "message": problem["detail"], "type": "server_error", "param": None,
        "code": "internal_error",
    }  # fmt: skip
    refused = render_response(
        templates.response("refused", "chat"), {"__type": "x#Throttling"}, 400
    )
    assert (refused.status, refused.json["error"]["type"]) == (429, "rate_limit_error")


def test_a_chat_crosses_templates_and_state_machine(small_store, cache_dir, models) -> None:
    """The gateway's request and response templates, with the workflow between them."""
    settings = settings_at(small_store, cache_dir=cache_dir)
    wiring = Wiring(settings, Telemetry(write=lambda line: None), models)
    workflow = LocalWorkflow(wiring)

    def through(route: str, body: str, **path: str):
        caller = Caller(sub="s", namespaces=("default", "handbook"), groups=())
        names = tuple(path)
        template = templates.request_workflow(route, "arn:alias", JWT, names)
        request = render_request(template, body, context(caller), None, path)
        execution = workflow.execute(Envelope.model_validate_json(request["input"]))
        return render_execution(execution, route)

    body = {"model": "extractive", "messages": [{"role": "user", "content": "What are seizures?"}]}
    answer = through("chat", json.dumps(body))
    assert answer.headers["Content-Type"] == "application/json"
    content = answer.json["choices"][0]["message"]["content"]
    assert "[1]" in content
    stream = through("chat", json.dumps({**body, "stream": True}))
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    assert json.dumps(content, ensure_ascii=False) in stream.body
    assert stream.body.endswith("data: [DONE]")
    wrong = through("chat", json.dumps({**body, "model": "extractive@other"}))
    assert (wrong.status, wrong.json["error"]["code"]) == (404, "model_not_found")
    listed = through("models", "")
    assert "extractive@handbook" in [model["id"] for model in listed.json["data"]]
    assert through("model", "", model="extractive%40handbook").json["id"] == "extractive@handbook"
    missing = through("model", "", model="house/small")
    assert (missing.status, missing.json["error"]["code"]) == (404, "model_not_found")
    body = {"model": "extractive", "input": "What are seizures?"}
    response = through("responses", json.dumps(body)).json
    assert response["output"][0]["content"][0]["text"] == content
    stream = through("responses", json.dumps({**body, "stream": True}))
    assert stream.headers["Content-Type"].startswith("text/event-stream")
    last = stream.body.rpartition("data: ")[2]
    assert json.loads(last)["response"]["output"][0]["content"] == response["output"][0]["content"]
    wiring.close()
