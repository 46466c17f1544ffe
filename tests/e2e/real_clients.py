"""Clients of OpenAI's format and of MCP, as installed from their packages, against a service.

python tests/e2e/real_clients.py URL        (in the environment of requirements/clients.txt)

Print one line for each client and exit with 1 if one fails.
"""

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # the map would be fetched from the internet

import litellm
from fastmcp import Client as FastMCPClient
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from openai import APIStatusError, OpenAI

URL = sys.argv[1].rstrip("/")
QUESTION = "What are seizures?"
MODEL = "extractive"
SERVED = {"base_url": f"{URL}/v1", "api_key": "none"}
ANSWER = {
    "title": "Answer",
    "description": "an answer with its confidence",
    "type": "object",
    "properties": {"answer": {"type": "string"}, "confidence": {"type": "number"}},
    "required": ["answer", "confidence"],
    "additionalProperties": False,
}
FOREIGN = {**ANSWER, "properties": {"colour": {"type": "string"}}, "required": ["colour"]}


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@contextmanager
def refused(code: str) -> Iterator[None]:
    """Require that the block is refused with status 400 and this code."""
    try:
        yield
    except APIStatusError as error:
        assert (error.status_code, error.body["code"]) == (400, code), error.body
    else:
        raise AssertionError(f"not refused with {code}")


def openai_chat() -> str:
    client = OpenAI(**SERVED)
    request = {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}]}
    message = client.chat.completions.create(**request).choices[0].message
    parts = client.chat.completions.create(**request, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == (
        message.content
    )
    assert message.annotations[0].url_citation.title
    assert MODEL in [entry.id for entry in client.models.list()]
    return message.content


def openai_responses() -> str:
    client = OpenAI(**SERVED)
    whole = client.responses.create(model=MODEL, input=QUESTION)
    events = list(client.responses.create(model=MODEL, input=QUESTION, stream=True))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == whole.output_text
    assert whole.output[-1].content[0].annotations[0].type == "url_citation"
    return text


def langchain_chat() -> str:
    model = ChatOpenAI(model=MODEL, **SERVED)
    text = model.invoke(QUESTION).content
    assert "".join(chunk.content for chunk in model.stream(QUESTION)) == text
    return text


def langchain_bind_tools() -> str:
    model = ChatOpenAI(model=MODEL, **SERVED)
    with refused("tools_unsupported"):
        model.bind_tools([add], tool_choice="any").invoke(QUESTION)
    return model.bind_tools([add]).invoke(QUESTION).content


def langchain_with_structured_output() -> str:
    model = ChatOpenAI(model=MODEL, **SERVED)
    with refused("schema_unsupported"):
        model.with_structured_output(FOREIGN).invoke(QUESTION)
    answer = model.with_structured_output(ANSWER).invoke(QUESTION)
    assert 0 < answer["confidence"] <= 1
    return answer["answer"]


def llama_index() -> str:
    base = {"api_base": SERVED["base_url"], "api_key": SERVED["api_key"]}
    model = OpenAILike(model=MODEL, is_chat_model=True, **base)
    text = str(model.complete(QUESTION))
    parts = list(model.stream_chat([ChatMessage(role="user", content=QUESTION)]))
    assert parts[-1].message.content == text
    return text


def litellm_completion() -> str:
    messages = [{"role": "user", "content": QUESTION}]
    base = {"api_base": SERVED["base_url"], "api_key": SERVED["api_key"]}
    reply = litellm.completion(model=f"openai/{MODEL}", messages=messages, **base)
    return reply.choices[0].message.content


async def mcp_sdk() -> str:
    async with streamable_http_client(f"{URL}/mcp") as (receiver, write, *_):  # noqa: SIM117
        async with ClientSession(receiver, write) as session:
            await session.initialize()
            listed = {tool.name for tool in (await session.list_tools()).tools}
            assert {"search", "fetch", "answer_with_citations"} <= listed
            result = await session.call_tool("search", {"query": QUESTION})
            first = json.loads(result.content[0].text)["results"][0]
            fetched = await session.call_tool("fetch", {"id": first["id"]})
            assert json.loads(fetched.content[0].text)["text"]
            resources = (await session.list_resources()).resources
            assert (await session.read_resource(resources[0].uri)).contents[0].text
            answer = await session.call_tool("answer_with_citations", {"query": QUESTION})
            return answer.structured_content["answer"]


async def fastmcp_client() -> str:
    async with FastMCPClient(f"{URL}/mcp") as client:
        assert await client.list_tools()
        resources = await client.list_resources()
        assert await client.read_resource(resources[0].uri)
        arguments = {"query": QUESTION, "top_k": "2"}
        result = await client.call_tool("search_documentation", arguments)
        assert len(result.structured_content["citations"]) == 2
        answer = await client.call_tool("answer_with_citations", {"query": QUESTION})
        return answer.structured_content["answer"]


CLIENTS = (
    openai_chat,
    openai_responses,
    langchain_chat,
    langchain_bind_tools,
    langchain_with_structured_output,
    llama_index,
    litellm_completion,
    mcp_sdk,
    fastmcp_client,
)


def main() -> int:
    """Try all clients; return how many failed."""
    failed = 0
    for client in CLIENTS:
        try:
            outcome = client()
            text = asyncio.run(outcome) if asyncio.iscoroutine(outcome) else outcome
            assert "seizure" in text.casefold(), text
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"{client.__name__}: FAILS")
        else:
            print(f"{client.__name__}: works")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(), 1))
