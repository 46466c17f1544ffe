"""OpenAI's Responses format, models by name, and errors of unknown routes."""

import json

import httpx
import openai
import pytest

from docstokg.contracts.chat import ErrorReply, ListedModel, ModelResponse
from tests.e2e.test_chat import respond

pytestmark = pytest.mark.timeout(120)
QUESTION = "What are seizures?"
ASKED = {"model": "extractive", "input": QUESTION}
FIRST = (
    "response.created", "response.in_progress", "response.output_item.added",
    "response.content_part.added",
)  # fmt: skip
LAST = (
    "response.output_text.done", "response.content_part.done", "response.output_item.done",
    "response.completed",
)  # fmt: skip


def test_a_response_equals_the_chat_completion(client, url) -> None:
    message = {"role": "user", "content": QUESTION}
    chat = client.chat.completions.create(model="extractive", messages=[message])
    response = respond(client)
    assert response.output_text == chat.choices[0].message.content
    ((part,),) = ([*item.content] for item in response.output)
    wanted = [
        annotation.url_citation.model_dump() for annotation in chat.choices[0].message.annotations
    ]
    assert [annotation.model_dump(exclude={"type"}) for annotation in part.annotations] == wanted
    assert wanted
    for cited in part.annotations:
        assert part.text[cited.start_index : cited.end_index] == f"[{cited.rank}]"
    assert (response.status, response.incomplete_details, response.error) == (
        "completed",
        None,
        None,
    )
    assert response.usage.total_tokens == chat.usage.total_tokens > 0
    assert response.docstokg["grounding"] == chat.docstokg["grounding"]
    raw = httpx.post(f"{url}/v1/responses", json=ASKED)
    ModelResponse.model_validate_json(raw.content)


def test_a_conversation_of_items(client) -> None:
    image = {"type": "input_image", "image_url": "data:,"}
    talk = [
        {"role": "user", "content": "What is the Golden Gate Bridge?"},
        {"type": "message", "role": "assistant",
         "content": [{"type": "output_text", "text": "A bridge.", "annotations": []}]},
        {"type": "reasoning", "id": "r", "summary": []},
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
    ]  # fmt: skip
    among = respond(client, input=talk, instructions="x" * 3000)
    assert among.output_text == respond(client).output_text
    assert {
        "The system prompt was cut to 2000 characters.",
        "Input items other than messages are not read.",
    } <= set(among.docstokg["warnings"])
    talk[-1]["content"].append(image)
    seen = respond(client, input=talk)
    assert seen.docstokg["query_used"] == f"{QUESTION}\n[image]"
    assert "Images, audio and files in messages are not read." in seen.docstokg["warnings"]


@pytest.mark.parametrize("fields", [{}, {"text": {"format": {"type": "json_object"}}}])
def test_a_stream_ends_in_the_whole_response(client, fields) -> None:
    whole = respond(client, **fields)
    events = list(respond(client, **fields, stream=True))
    kinds = [event.type for event in events]
    assert tuple(kinds[:4]) == FIRST
    assert tuple(kinds[-4:]) == LAST
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == whole.output_text == events[-4].text
    added = [e.annotation for e in events if e.type == "response.output_text.annotation.added"]
    assert added == [
        annotation.model_dump() for annotation in whole.output[0].content[0].annotations
    ]
    assert bool(added) == (not fields)
    assert events[-1].response.output[0].content == whole.output[0].content
    assert events[-1].response.id == events[0].response.id
    with client.responses.stream(**ASKED, **fields) as live:
        assert live.get_final_response().output_text == whole.output_text


def test_a_response_in_json(client) -> None:
    plain = respond(client)
    properties = {"answer": {"type": "string"}, "confidence": {"type": "number"}}
    schema = {"type": "object", "required": ["answer"], "properties": properties}
    form = {"type": "json_schema", "name": "answer", "schema": schema}
    response = respond(client, text={"format": form})
    content = json.loads(response.output_text)
    assert content == {"answer": plain.output_text, "confidence": plain.docstokg["confidence"]}


TOOL = {"type": "function", "name": "look_up", "parameters": {}}


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [TOOL], "tool_choice": "auto"},
        {"store": True, "truncation": "auto", "reasoning": {"effort": "low"}, "include": []},
        {"previous_response_id": None, "background": False, "metadata": {"a": "b"}},
    ],
)
def test_what_need_not_be_done_is_ignored(client, fields) -> None:
    response = respond(client, **fields)
    assert response.output_text == respond(client).output_text
    assert response.store is False


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice", "tools_unsupported"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "state_unsupported"),
        ({"conversation": "conv_1"}, "conversation", "state_unsupported"),
        ({"background": True}, "background", "state_unsupported"),
        ({"input": [{"role": "system", "content": "hi"}]}, "input", "question_missing"),
        ({"input": [{"type": "function_call"}]}, "input", "question_missing"),
        ({"input": "x" * 4097}, "input", None),
        ({"model": "gpt-9"}, "model", "model_not_allowed"),
        ({"max_output_tokens": 0}, "max_output_tokens", None),
        ({"text": {"format": {"type": "json_schema", "schema": {"required": ["mood"]}}}},
         "text.format", "schema_unsupported"),
        ({"input": []}, None, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_names_their_field(url, change, param, code, stream) -> None:
    refused = httpx.post(f"{url}/v1/responses", json={**ASKED, "stream": stream, **change})
    assert refused.status_code == 400, refused.text
    error = ErrorReply.model_validate_json(refused.content).error
    assert error.type == "invalid_request_error"
    assert param is None or error.param == param
    assert code is None or error.code == code


def test_a_model_is_shown_by_its_name(client, server_for) -> None:
    assert client.models.retrieve("extractive").id == "extractive"
    assert client.models.retrieve("extractive@default").owned_by == "docstokg"
    for name in ("gpt-9", "gpt-4o", "extractive@No Good", "extractive/x"):  # no key for the second
        with pytest.raises(openai.NotFoundError) as missing:
            client.models.retrieve(name)
        assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    url = server_for(llm_base_url="http://127.0.0.1:9", llm_api_key="k", models=("house/small",))
    for name in ("house/small", "house%2Fsmall"):
        reply = httpx.get(f"{url}/v1/models/{name}")
        assert ListedModel.model_validate_json(reply.content).id == "house/small"


@pytest.mark.parametrize("path", ["embeddings", "completions", "files", "x/y", "responses/resp_1"])
def test_an_unknown_route_answers_in_their_form(url, path) -> None:
    for method in ("GET", "POST"):
        missing = httpx.request(method, f"{url}/v1/{path}")
        assert missing.status_code == 404
        assert missing.headers["content-type"] == "application/json"
        assert ErrorReply.model_validate_json(missing.content).error.code == "not_found"


def test_a_wrong_method_answers_in_the_route_format(url) -> None:
    for path in ("responses", "models", "models/extractive"):
        wrong = httpx.delete(f"{url}/v1/{path}")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    for path in ("/v1/answer", "/v1/documents", "/nowhere"):
        reply = httpx.put(f"{url}{path}")
        assert reply.headers["content-type"] == "application/problem+json"
