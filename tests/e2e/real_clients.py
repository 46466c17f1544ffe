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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
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


class Answer(BaseModel):
    """An answer with its confidence."""

    answer: str
    confidence: float


class Colour(BaseModel):
    """The foreign schema."""

    colour: str


FOREIGN = {"name": "colour", "schema": Colour.model_json_schema()}


@dataclass
class Case:
    """A request; if it must fail, `sentence` is in the text of the client's error."""

    sentence: str = ""
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


def langchain_bind_tools() -> str:
    model = ChatOpenAI(model=MODEL, **Case().base)
    with refused("tools_unsupported"):
        model.bind_tools([add], tool_choice="any").invoke(QUESTION)
    return model.bind_tools([add]).invoke(QUESTION).content


def langchain_with_structured_output() -> str:
    model = ChatOpenAI(model=MODEL, **Case().base)
    with refused("schema_unsupported"):
        model.with_structured_output(Colour).invoke(QUESTION)
    answer = model.with_structured_output(Answer).invoke(QUESTION)
    assert 0 < answer.confidence <= 1
    return answer.answer


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


BROKEN = "broke off"
LACKING = "does not exist or may not be used"
STORE = {"type": "file_search", "vector_store_ids": ["nothing_here"]}
FAILURES = {
    "unknown model": Case("must be one of extractive, gpt-4o-mini", model="none-such"),
    "model without key": Case("No key or address", model="gpt-4o-mini"),
    "model fails": Case("gpt-4o-mini", model="gpt-4o-mini", service=1),
    "model fails, stream": Case("gpt-4o-mini", model="gpt-4o-mini", service=1, stream=True),
    "stream breaks": Case(BROKEN, model="gpt-4o-mini", service=2, stream=True),
    "unknown vector store": Case(LACKING, has_store=True),
    "foreign schema": Case("may require only answer, citations, confidence", has_schema=True),
}


def joined(parts: Iterable[Any]) -> str:
    return "".join(part.choices[0].delta.content or "" for part in parts if part.choices)


def ask_openai_chat(case: Case) -> str:
    completions = OpenAI(**case.base).chat.completions
    request = {"model": case.named, "messages": [{"role": "user", "content": QUESTION}]}
    if case.has_schema:
        return str(completions.parse(**request, response_format=Colour))
    if case.stream:
        return joined(completions.create(**request, stream=True))
    return completions.create(**request).choices[0].message.content


def ask_openai_responses(case: Case) -> str:
    responses = OpenAI(**case.base).responses
    request = {"model": case.model, "input": QUESTION, "tools": case.tools}
    if case.has_schema:
        return str(responses.parse(**request, text_format=Colour))
    if case.stream:
        events = responses.create(**request, stream=True)
        return "".join(e.delta for e in events if e.type == "response.output_text.delta")
    return responses.create(**request).output_text


def ask_langchain(case: Case, model: Any) -> str:
    if case.has_schema:
        return str(model.with_structured_output(Colour).invoke(QUESTION))
    if case.stream:
        return "".join(chunk.text for chunk in model.stream(QUESTION))
    return model.invoke(QUESTION).text


def ask_langchain_chat(case: Case) -> str:
    return ask_langchain(case, ChatOpenAI(model=case.named, **case.base))


def ask_langchain_responses(case: Case) -> str:
    model = ChatOpenAI(model=case.model, use_responses_api=True, **case.base)
    return ask_langchain(case, model.bind_tools(case.tools) if case.has_store else model)


def ask_llama_index(case: Case, kind: Callable[..., Any], **options: Any) -> str:
    base = {"api_base": case.base["base_url"], "api_key": "none", "max_retries": 0}
    model, messages = kind(**base, **options), [ChatMessage(role="user", content=QUESTION)]
    reply = list(model.stream_chat(messages))[-1] if case.stream else model.chat(messages)
    return reply.message.content


def ask_llama_index_chat(case: Case) -> str:
    form = {"type": "json_schema", "json_schema": FOREIGN}
    more = {"additional_kwargs": {"response_format": form}} if case.has_schema else {}
    return ask_llama_index(case, OpenAILike, model=case.named, is_chat_model=True, **more)


def ask_llama_index_responses(case: Case) -> str:
    form = {"format": {"type": "json_schema", **FOREIGN}}
    more = {"additional_kwargs": {"text": form}} if case.has_schema else {}
    options = {"model": case.model, "context_window": 9000, "built_in_tools": case.tools}
    return ask_llama_index(case, OpenAIResponses, **options, **more)


def ask_litellm(case: Case) -> str:
    reply = litellm.completion(
        model=f"openai/{case.named}",
        messages=[{"role": "user", "content": QUESTION}],
        api_base=case.base["base_url"],
        api_key="none",
        max_retries=0,
        stream=case.stream,
        response_format=Colour if case.has_schema else None,
    )
    return joined(reply) if case.stream else reply.choices[0].message.content


def ask_pydantic_ai(case: Case, model: Any, name: str, tools: list[Any]) -> str:
    provider = OpenAIProvider(openai_client=AsyncOpenAI(**case.base))
    output = NativeOutput(Colour) if case.has_schema else str
    agent = Agent(model(name, provider=provider), output_type=output, capabilities=tools)

    async def output() -> str:
        if not case.stream:
            return (await agent.run(QUESTION)).output
        async with agent.run_stream(QUESTION) as reply:
            return await reply.get_output()

    return asyncio.run(output())


def ask_pydantic_ai_chat(case: Case) -> str:
    return ask_pydantic_ai(case, OpenAIChatModel, case.named, [])


def ask_pydantic_ai_responses(case: Case) -> str:
    ids = STORE["vector_store_ids"]
    tools = [NativeTool(FileSearchTool(file_store_ids=ids))] if case.has_store else []
    return ask_pydantic_ai(case, OpenAIResponsesModel, case.model, tools)


def ask_openai_agents(case: Case, model: Any, name: str, tools: list[Any]) -> str:
    agents.set_tracing_disabled(True)
    agent = agents.Agent(
        name="asker",
        model=model(model=name, openai_client=AsyncOpenAI(**case.base)),
        output_type=Colour if case.has_schema else None,
        tools=tools,
    )

    async def output() -> str:
        if not case.stream:
            return (await agents.Runner.run(agent, QUESTION)).final_output
        reply = agents.Runner.run_streamed(agent, QUESTION)
        async for _ in reply.stream_events():
            pass
        return reply.final_output

    return asyncio.run(output())


def ask_openai_agents_chat(case: Case) -> str:
    return ask_openai_agents(case, agents.OpenAIChatCompletionsModel, case.named, [])


def ask_openai_agents_responses(case: Case) -> str:
    tools = [agents.FileSearchTool(STORE["vector_store_ids"])] if case.has_store else []
    return ask_openai_agents(case, agents.OpenAIResponsesModel, case.model, tools)


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


def error_type(ask: Callable[[Case], str], case: Case) -> str:
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


def answer_of(ask: Callable[[Case], str]) -> str:
    """Return a client's answer, which must be the same streamed."""
    text = ask(Case())
    assert ask(Case(stream=True)) == text
    return text


CLIENTS: dict[str, Callable[[], str]] = {
    **{name: partial(answer_of, ask) for name, ask in ASKED.items()},
    "langchain-openai, tools": langchain_bind_tools,
    "langchain-openai, schema": langchain_with_structured_output,
    "mcp": lambda: asyncio.run(mcp_sdk()),
    "fastmcp": lambda: asyncio.run(fastmcp_client()),
}


def main() -> int:
    """Try all clients; return how many failed."""
    failed = 0
    for name, answer in CLIENTS.items():
        try:
            text = answer()
            assert "seizure" in text.casefold(), text
        except Exception:
            failed += 1
            traceback.print_exc()
            print(f"{name}: FAILS")
        else:
            print(f"{name}: works")
    return failed + (print_errors() if len(ADDRESSES) == 3 else 0)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
