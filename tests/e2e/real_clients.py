"""Clients of OpenAI's format and of MCP, as installed from their packages, against a service.

python tests/e2e/real_clients.py URL [FAILING BREAKING]   (with requirements/clients.txt)

Print one line for each client and exit with 1 if one fails. With the addresses of two more
services, whose model fails at once or within a stream, also print a table of errors: the type
that each client raises, with the service's sentence in its text.
"""

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # the map would be fetched from the internet

import agents
import litellm
from fastmcp import Client as FastMCPClient
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAIResponses
from llama_index.llms.openai_like import OpenAILike
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from openai import APIStatusError, AsyncOpenAI, OpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, FileSearchTool, NativeOutput
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

ADDRESSES = [address.rstrip("/") for address in sys.argv[1:]]
URL = ADDRESSES[0]
litellm.suppress_debug_info = True
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


class Colour(BaseModel):
    """The foreign schema."""

    colour: str


@dataclass
class Failure:
    """A request that must fail; `sentence` is in the text of the client's error."""

    sentence: str
    model: str = MODEL
    service: int = 0
    stream: bool = False
    has_store: bool = False
    has_schema: bool = False

    @property
    def base(self) -> dict[str, Any]:
        """Where the client sends it."""
        return {"base_url": f"{ADDRESSES[self.service]}/v1", "api_key": "none", "max_retries": 0}

    @property
    def named(self) -> str:
        """The model, with the namespace where the client names no vector store."""
        return f"{self.model}@nothing_here" if self.has_store else self.model

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The vector store as a tool."""
        return [STORE] if self.has_store else []


BROKEN = "broke off"
LACKING = "does not exist or may not be used"
STORE = {"type": "file_search", "vector_store_ids": ["nothing_here"]}
FAILURES = {
    "unknown model": Failure("must be one of extractive, gpt-4o-mini", model="none-such"),
    "model without key": Failure("No key or address", model="gpt-4o-mini"),
    "model fails": Failure("gpt-4o-mini", model="gpt-4o-mini", service=1),
    "model fails, stream": Failure("gpt-4o-mini", model="gpt-4o-mini", service=1, stream=True),
    "stream breaks": Failure(BROKEN, model="gpt-4o-mini", service=2, stream=True),
    "unknown vector store": Failure(LACKING, has_store=True),
    "foreign schema": Failure("may require only answer, citations, confidence", has_schema=True),
}


def ask_openai_chat(case: Failure) -> None:
    completions = OpenAI(**case.base).chat.completions
    request = {"model": case.named, "messages": [{"role": "user", "content": QUESTION}]}
    if case.has_schema:
        completions.parse(**request, response_format=Colour)
    elif case.stream:
        list(completions.create(**request, stream=True))
    else:
        completions.create(**request)


def ask_openai_responses(case: Failure) -> None:
    responses = OpenAI(**case.base).responses
    request = {"model": case.model, "input": QUESTION, "tools": case.tools}
    if case.has_schema:
        responses.parse(**request, text_format=Colour)
    elif case.stream:
        list(responses.create(**request, stream=True))
    else:
        responses.create(**request)


def ask_langchain(case: Failure, model: Any) -> None:
    if case.has_schema:
        model.with_structured_output(Colour).invoke(QUESTION)
    elif case.stream:
        list(model.stream(QUESTION))
    else:
        model.invoke(QUESTION)


def ask_langchain_chat(case: Failure) -> None:
    ask_langchain(case, ChatOpenAI(model=case.named, **case.base))


def ask_langchain_responses(case: Failure) -> None:
    model = ChatOpenAI(model=case.model, use_responses_api=True, **case.base)
    ask_langchain(case, model.bind_tools(case.tools) if case.has_store else model)


def ask_llama_index(case: Failure, kind: Callable[..., Any], **options: Any) -> None:
    base = {"api_base": case.base["base_url"], "api_key": "none", "max_retries": 0}
    model = kind(**base, **options)
    if case.stream:
        list(model.stream_chat([ChatMessage(role="user", content=QUESTION)]))
    else:
        model.chat([ChatMessage(role="user", content=QUESTION)])


def ask_llama_index_chat(case: Failure) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "colour", "schema": FOREIGN}}
    more = {"additional_kwargs": {"response_format": form}} if case.has_schema else {}
    ask_llama_index(case, OpenAILike, model=case.named, is_chat_model=True, **more)


def ask_llama_index_responses(case: Failure) -> None:
    form = {"format": {"type": "json_schema", "name": "colour", "schema": FOREIGN}}
    more = {"additional_kwargs": {"text": form}} if case.has_schema else {}
    tools = {"built_in_tools": case.tools}
    ask_llama_index(case, OpenAIResponses, model=case.model, context_window=9000, **tools, **more)


def ask_litellm(case: Failure) -> None:
    reply = litellm.completion(
        model=f"openai/{case.named}",
        messages=[{"role": "user", "content": QUESTION}],
        api_base=case.base["base_url"],
        api_key="none",
        max_retries=0,
        stream=case.stream,
        response_format=Colour if case.has_schema else None,
    )
    if case.stream:
        list(reply)


def ask_pydantic_ai(case: Failure, model: Any, name: str, tools: list[Any]) -> None:
    provider = OpenAIProvider(openai_client=AsyncOpenAI(**case.base))
    output = NativeOutput(Colour) if case.has_schema else str
    agent = Agent(model(name, provider=provider), output_type=output, capabilities=tools)

    async def stream() -> None:
        async with agent.run_stream(QUESTION) as reply:
            await reply.get_output()

    asyncio.run(stream() if case.stream else agent.run(QUESTION))


def ask_pydantic_ai_chat(case: Failure) -> None:
    ask_pydantic_ai(case, OpenAIChatModel, case.named, [])


def ask_pydantic_ai_responses(case: Failure) -> None:
    ids = STORE["vector_store_ids"]
    tools = [NativeTool(FileSearchTool(file_store_ids=ids))] if case.has_store else []
    ask_pydantic_ai(case, OpenAIResponsesModel, case.model, tools)


def ask_openai_agents(case: Failure, model: Any, name: str, tools: list[Any]) -> None:
    agents.set_tracing_disabled(True)
    agent = agents.Agent(
        name="asker",
        model=model(model=name, openai_client=AsyncOpenAI(**case.base)),
        output_type=Colour if case.has_schema else None,
        tools=tools,
    )

    async def stream() -> None:
        async for _ in agents.Runner.run_streamed(agent, QUESTION).stream_events():
            pass

    asyncio.run(stream() if case.stream else agents.Runner.run(agent, QUESTION))


def ask_openai_agents_chat(case: Failure) -> None:
    ask_openai_agents(case, agents.OpenAIChatCompletionsModel, case.named, [])


def ask_openai_agents_responses(case: Failure) -> None:
    tools = [agents.FileSearchTool(STORE["vector_store_ids"])] if case.has_store else []
    ask_openai_agents(case, agents.OpenAIResponsesModel, case.model, tools)


ASKED = {
    "openai, chat": ask_openai_chat,
    "openai, responses": ask_openai_responses,
    "langchain-openai, chat": ask_langchain_chat,
    "langchain-openai, responses": ask_langchain_responses,
    "llama-index, chat": ask_llama_index_chat,
    "llama-index, responses": ask_llama_index_responses,
    "litellm, chat": ask_litellm,
    "pydantic-ai, chat": ask_pydantic_ai_chat,
    "pydantic-ai, responses": ask_pydantic_ai_responses,
    "openai-agents, chat": ask_openai_agents_chat,
    "openai-agents, responses": ask_openai_agents_responses,
}


def error_type(ask: Callable[[Failure], None], case: Failure) -> str:
    """Return the type of the client's error, or why the case fails."""
    if case.sentence == BROKEN:
        # A whole reply in between keeps the circuit of the model closed.
        ask_openai_chat(replace(case, stream=False))
    try:
        ask(case)
    except Exception as error:
        known = type(error).__module__.partition(".")[0] != "builtins"
        kind = type(error).__name__ if known else repr(error)
        return f"`{kind}`" if case.sentence in str(error) else f"FAILS: {kind} {error}"
    return "FAILS: no error"


def print_errors() -> int:
    """Print the table of clients and failures; return how many clients lack our sentence."""
    print(f"| client | {' | '.join(FAILURES)} |\n|{'---|' * (len(FAILURES) + 1)}")
    failed = 0
    for name, ask in ASKED.items():
        row = " | ".join(error_type(ask, case) for case in FAILURES.values())
        failed += "FAILS" in row
        print(f"| {name} | {row} |")
    return failed


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
    return failed + (print_errors() if len(ADDRESSES) == 3 else 0)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
