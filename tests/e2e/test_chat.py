"""OpenAI's own client against a real server: answers, streams, errors, namespaces."""

import json
from pathlib import Path
from urllib.parse import parse_qsl

import httpx
import openai
import pytest

from docstokg.contracts.chat import ChatCompletion, ErrorReply, ModelList
from tests.builders import answer_request, keyed, tool_call
from tests.e2e.conftest import openai_client
from tests.streaming_model import StreamingModel, streaming

pytestmark = pytest.mark.timeout(120)
QUESTION = {"role": "user", "content": "What are seizures?"}
REQUEST = {"model": "extractive", "messages": [QUESTION]}


def complete(client, **fields):
    return client.chat.completions.create(**REQUEST | fields)


def respond(client, **fields):
    asked = {"model": "extractive", "input": QUESTION["content"]}
    return client.responses.create(**asked | fields)


CALLS = {"chat": complete, "responses": respond}


def post_chat(url: str, **fields) -> httpx.Response:
    return httpx.post(f"{url}/v1/chat/completions", json=REQUEST | fields, timeout=60)


def joined(reply) -> str:
    """Return the text of a chat completion, whole or in events."""
    if isinstance(reply, openai.Stream):
        return "".join(event.choices[0].delta.content or "" for event in reply)
    return reply.choices[0].message.content


def test_each_marker_of_an_answer_is_an_annotation(client, url) -> None:
    done = complete(client)
    (choice,) = done.choices
    assert choice.finish_reason == "stop"
    text = choice.message.content
    citations = [annotation.url_citation for annotation in choice.message.annotations]
    assert citations
    for cited in citations:
        assert text[cited.start_index : cited.end_index] == f"[{cited.rank}]"
    same = httpx.post(f"{url}/v1/answer", json=answer_request(QUESTION["content"], 512)).json()
    assert text == same["answer"]
    assert done.docstokg["confidence"] == same["confidence"]
    assert done.docstokg["grounding"] == same["grounding"]
    cited = {c["uuid"] for c in same["citations"] if c["cited"]}
    assert {annotation.uuid for annotation in citations} == cited
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens > 0
    ChatCompletion.model_validate_json(done.model_dump_json(exclude_unset=True))


def test_a_chat_stream_equals_the_whole_completion(client, url) -> None:
    whole = complete(client)
    events = list(complete(client, stream=True, stream_options={"include_usage": True}))
    text = "".join(event.choices[0].delta.content or "" for event in events)
    assert text == whole.choices[0].message.content
    assert events[0].choices[0].delta.role == "assistant"
    assert events[-1].choices[0].finish_reason == "stop"
    assert events[-1].usage == whole.usage
    raw = post_chat(url, stream=True)
    assert raw.headers["content-type"].startswith("text/event-stream")
    assert raw.text.endswith("\n\ndata: [DONE]\n\n")


TITLE = (
    '### Task:\nName this chat in five words.\n### Output:\n{ "title": "..." }\n<chat_history>\n'
)
OPEN_WEBUI = {
    "a title": {"messages": [{"role": "user", "content": f"{TITLE}USER: What are seizures?"}],
                "max_completion_tokens": 1000, "metadata": {"task": "title_generation"}},
    "tags": {"messages": [{"role": "user", "content": TITLE.replace("title", "tags")}],
             "metadata": {"task": "tags_generation"}},
    "no tools": {"tools": [], "session_id": "s", "chat_id": "c"},
}  # fmt: skip
"""What it sends beside a conversation: by its documentation and source, in words of our own."""


@pytest.mark.parametrize("fields", OPEN_WEBUI.values(), ids=OPEN_WEBUI)
@pytest.mark.parametrize("stream", [False, True])
def test_open_webui_is_answered(url, fields, stream) -> None:
    answered = post_chat(url, stream=stream, **fields)
    assert answered.status_code == 200, answered.text
    if not stream:
        assert ChatCompletion.model_validate_json(answered.content).choices[0].message.content


def test_a_follow_up_is_completed_from_earlier_turns(client) -> None:
    talk = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the Golden Gate Bridge?"},
        {"role": "assistant", "content": "A bridge."},
        {"role": "user", "content": [{"type": "text", "text": "What are seizures?"}]},
        {"role": "assistant", "content": None},
    ]
    among = complete(client, messages=talk)
    assert joined(among) == joined(complete(client))
    assert among.docstokg["query_used"] == "What are seizures?"
    talk[4] = {"role": "assistant", "content": joined(among)}
    last = {"role": "user", "content": "and when did they begin?"}
    followed = complete(client, messages=[*talk, last])
    assert followed.docstokg["query_used"].startswith("and when did they begin? (seizures")


def test_models_are_listed_with_namespaces_granted_by_name(server_for, tmp_path: Path) -> None:
    holder = {"namespaces": ["default", "handbook"], "groups": []}
    url = server_for(
        **keyed(tmp_path, {"K": holder}),
        openai_api_key="k",
        models=("extractive", "gpt-4o", "claude-3-haiku"),
    )
    with openai_client(url, "K") as client:
        listed = [model.id for model in client.models.list()]
        # Nobody is listed who could not answer: there is no key for the third.
        assert listed == ["extractive", "gpt-4o", "extractive@handbook", "gpt-4o@handbook"]
        ModelList.model_validate_json(
            httpx.get(f"{url}/v1/models", headers={"X-Api-Key": "K"}).content
        )
        refusals = []
        for name in ("handbook", "other"):  # granted without passages, and not granted
            with pytest.raises(openai.NotFoundError) as refused:
                complete(client, model=f"extractive@{name}")
            refusals.append((refused.value.code, refused.value.message.partition("model: ")[2]))
        assert refusals[0] == refusals[1]
    with (
        openai_client(url, "wrong") as stranger,
        pytest.raises(openai.AuthenticationError) as unknown,
    ):
        stranger.models.list()
    assert unknown.value.type == "authentication_error"


def test_citations_link_to_their_passages_on_the_page(server_for) -> None:
    url = server_for(public_url="https://docs.example.org/")
    completion = post_chat(url).json()
    cited = {citation["uuid"]: citation for citation in completion["docstokg"]["citations"]}
    links = [
        annotation["url_citation"]
        for annotation in completion["choices"][0]["message"]["annotations"]
    ]
    assert links
    for link in links:
        address, _, fragment = link["url"].partition("#")
        assert address == "https://docs.example.org/"
        citation = cited[link["uuid"]]
        assert dict(parse_qsl(fragment)) == {
            "namespace": "default",
            "doc": citation["doc_id"],
            "passage": citation["uuid"],
            "span": f"{citation['char_start']}-{citation['char_end']}",
        }
    message = tool_call("search", query=QUESTION["content"])
    result = httpx.post(f"{url}/mcp", json=message).json()["result"]["structuredContent"]
    assert result["results"][0]["url"].startswith(
        "https://docs.example.org/#namespace=default&doc="
    )


TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {}}}
SCHEMA = "response_format.json_schema"


def schema(*required: str, **properties: dict) -> dict:
    object_schema = {"type": "object", "required": list(required), "properties": properties}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": object_schema}}


def array(kind: str) -> dict:
    return {"type": "array", "items": {"type": kind}}


def test_tools_that_need_not_be_called_are_ignored(client) -> None:
    plain = joined(complete(client))
    for choice in ({}, {"tool_choice": "auto"}, {"tool_choice": "none"}):
        completion = complete(client, tools=[TOOL], **choice)
        assert joined(completion) == plain
        assert completion.choices[0].message.tool_calls is None


def test_an_answer_in_json(client) -> None:
    def content_of(form: dict, **fields) -> dict:
        return json.loads(joined(complete(client, response_format=form, **fields)))

    plain = complete(client)
    cited = [citation["rank"] for citation in plain.docstokg["citations"]]
    content = content_of({"type": "json_object"})
    assert content["answer"] == joined(plain)
    assert [citation["rank"] for citation in content["citations"]] == cited
    assert content_of(schema()) == content
    form = schema("answer", confidence={"type": "number"}, citations=array("integer"), answer={})
    content = content_of(form, stream=True)
    confidence = plain.docstokg["confidence"]
    assert content == {"confidence": confidence, "citations": cited, "answer": content["answer"]}
    links = content_of(schema(citations=array("string")))["citations"]
    assert links and all(link.startswith(("http", "urn:uuid:")) for link in links)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_ends_before_a_stop(client, stream) -> None:
    whole = joined(complete(client))
    stop = whole[10:14]
    text = joined(complete(client, stop=[stop, "nowhere"], stream=stream))
    assert text == whole[: whole.index(stop)]


def test_ignored_fields_are_named_in_warnings(url) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    parts = [{"type": "text", "text": QUESTION["content"]}, image]
    system = {"role": "system", "content": "x" * 3000}
    reply = post_chat(url, messages=[system, {"role": "user", "content": parts}])
    assert reply.status_code == 200
    evidence = reply.json()["docstokg"]
    warnings = [
        "The system prompt was cut to 2000 characters.",
        "Images, audio and files in messages are not read.",
    ]
    assert set(warnings) <= set(evidence["warnings"])
    assert reply.headers["x-docstokg-warning"] == " ".join(warnings)
    assert evidence["citations"]


FOREIGN = 'JSON schema:\n{"type": "object", "properties": {"mood": {"type": "string"}}}'
IN_THE_PROMPT = {
    "messages": [{"role": "system", "content": FOREIGN}, QUESTION],
    "response_format": {"type": "json_object"},
}


@pytest.mark.parametrize(
    ("change", "param", "code"),
    [
        (IN_THE_PROMPT, "response_format", "schema_unsupported"),
        ({"messages": [{"role": "user", "content": "x" * 4097}]}, "messages[0].content", None),
        ({"messages": [{"role": "system", "content": "hi"}]}, "messages", "question_missing"),
        ({"messages": []}, "messages", None),
        ({"messages": [], "stream": True}, "messages", None),
        ({"model": "gpt-9"}, "model", "model_not_allowed"),
        ({"temperature": 3}, "temperature", None),
        ({"n": 2}, "n", None),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice", "tools_unsupported"),
        ({"tool_choice": {"type": "function"}}, "tool_choice", "tools_unsupported"),
        ({"response_format": {"type": "xml"}}, "response_format.type", None),
        ({"response_format": schema("answer", "mood")}, SCHEMA, "schema_unsupported"),
        ({"response_format": schema(["answer"])}, None, None),
        ({"response_format": schema(5)}, None, None),
    ],
)
def test_errors_have_the_form_of_their_api(url, change, param, code) -> None:
    refused = post_chat(url, **change)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "application/json"
    error = ErrorReply.model_validate_json(refused.content).error
    assert error.type == "invalid_request_error"
    assert param is None or error.param == param
    assert code is None or error.code == code


@pytest.mark.parametrize("greeting", ["hi", "?", "会"])
def test_messages_too_short_for_a_question_are_answered(url, greeting: str) -> None:
    done = post_chat(url, messages=[{"role": "user", "content": greeting}])
    assert done.status_code == 200
    assert done.json()["choices"][0]["message"]["content"]


def test_bodies_of_no_chat_are_refused_in_its_form(url) -> None:
    path = f"{url}/v1/chat/completions"
    assert httpx.post(path, content=b"{").status_code == 415
    kind = {"content-type": "application/json"}
    big = httpx.post(path, content=b" " * 70_000, headers=kind)
    assert (big.status_code, big.json()["error"]["code"]) == (413, "body_too_large")
    assert httpx.post(path, content=b"\xff{", headers=kind).json()["error"]["param"] == "body"


REMOTE = {"models": ("extractive", "gpt-4o-mini")}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", CALLS)
def test_a_failed_model_is_their_error(server_for, route: str, stream: bool) -> None:
    url = server_for(llm_base_url="http://127.0.0.1:9", llm_api_key="k", **REMOTE)
    with openai_client(url) as client:
        with pytest.raises(openai.APIError, match="gpt-4o-mini") as failed:
            list(CALLS[route](client, model="gpt-4o-mini", stream=stream))
        assert failed.value.code == "llm_unavailable"
        if not stream:
            assert failed.value.status_code == 503
            assert failed.value.response.headers["retry-after"] == "5"
            evidence = failed.value.response.json()["docstokg"]
            assert evidence["degraded_reasons"] == ["llm_unavailable"]
            assert len(evidence["citations"]) > 0


@pytest.mark.parametrize("route", CALLS)
def test_a_model_without_key_is_not_found(server_for, route: str) -> None:
    with openai_client(server_for(**REMOTE)) as client:
        assert [model.id for model in client.models.list()] == ["extractive"]
        with pytest.raises(openai.NotFoundError, match="No key or address") as failed:
            CALLS[route](client, model="gpt-4o-mini")
        assert failed.value.code == "model_not_found"


@pytest.mark.parametrize("route", CALLS)
def test_a_broken_stream_ends_with_an_error(server_for, route: str) -> None:
    answer = "Seizures are electrical events [1]. They may follow a fever [1]. They stop soon [1]."
    with streaming(StreamingModel(answer=answer, break_after=9)) as model:
        url = server_for(llm_base_url=model.url, llm_api_key="k", **REMOTE)
        received = []
        with (
            openai_client(url) as client,
            pytest.raises(openai.APIError, match="broke off") as failed,
        ):
            received += CALLS[route](client, model="gpt-4o-mini", stream=True)
        assert failed.value.code == "llm_unavailable"
        whole = httpx.post(
            f"{url}/v1/answer",
            json=answer_request(QUESTION["content"], 300, model="gpt-4o-mini"),
            headers={"Accept": "text/event-stream"},
        )
    last = json.loads(whole.text.rpartition("data: ")[2])
    assert last["answer"] == "Seizures are electrical events [1]."
    assert "The model's reply broke off; the answer is incomplete." in last["warnings"]
    assert last["diagnostics"]["degraded_reasons"] == ["llm_unavailable"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", CALLS)
def test_warnings_end_the_answer(server_for, route: str, stream: bool) -> None:
    answer = "Seizures are electrical events [1]. They last 7341 minutes [1]."
    with streaming(StreamingModel(answer=answer)) as model:
        url = server_for(llm_base_url=model.url, llm_api_key="k", **REMOTE)
        with openai_client(url) as client:
            reply = CALLS[route](client, model="gpt-4o-mini", stream=stream)
            if route == "chat":
                text = joined(reply)
            elif stream:
                text = "".join(e.delta for e in reply if e.type == "response.output_text.delta")
            else:
                text = reply.output_text
    assert text.startswith(answer)
    assert text.count("No cited source contains: 7341 (sentence 2).") == 1
    assert "\n\nNote: " in text


STORES = [{"type": "file_search", "vector_store_ids": ["nothing_here"]}]


@pytest.mark.parametrize(
    ("route", "request_fields"),
    [
        ("chat", {"model": "extractive@nothing_here"}),
        ("chat", {"model": "extractive@Not a name"}),
        ("responses", {"model": "extractive@nothing_here"}),
        ("responses", {"tools": STORES}),
    ],
)
def test_a_namespace_without_passages_is_not_found(client, route, request_fields) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist or may not be used") as failed:
        CALLS[route](client, **request_fields)
    assert failed.value.code == "model_not_found"


@pytest.mark.parametrize("names", [-1e308, "default", [["default"]], [None], {"a": 1}])
def test_vector_stores_that_are_no_names_are_refused(client, names) -> None:
    stores = [{"type": "file_search", "vector_store_ids": names}]
    with pytest.raises(openai.BadRequestError, match="vector_store_ids"):
        respond(client, tools=stores)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("route", CALLS)
def test_a_missing_store_is_an_openai_server_error(
    server_for, tmp_path: Path, route: str, stream: bool
) -> None:
    with (
        openai_client(server_for(tmp_path / "gone.sqlite")) as client,
        pytest.raises(openai.InternalServerError) as failed,
    ):
        CALLS[route](client, stream=stream)
    assert failed.value.status_code == 503
    assert (failed.value.type, failed.value.code) == ("server_error", "nothing_to_cite")
