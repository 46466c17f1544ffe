"""MCP by its official client: over HTTP against a real server, and over a pipe to a process."""

import json
import math
import os
import re
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.builders import keyed

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "What are seizures in children?"
TOOLS = {
    "search_documentation", "answer_with_citations", "check_grounding", "traverse_relationships",
    "list_documents", "list_namespaces", "read_passage", "search", "fetch",
}  # fmt: skip
WHOLE = {"numbers": True, "max_response_tokens": None}
"""The route's own response on one page."""
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def url(server_for) -> str:
    return f"{server_for()}/mcp"


@pytest.fixture
async def client(url):
    async with Client(url) as opened:
        yield opened


def text_of(result) -> str:
    block, *links = result.content
    assert block.type == "text"
    assert all(link.type == "resource_link" for link in links)
    content = None if result.is_error else json.loads(block.text)
    assert result.structured_content == content
    return block.text


def tokens(result: dict) -> int:
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    return math.ceil(len(text.encode("utf-8")) / 4)


async def tools_of(client: Client) -> dict:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


async def good(client: Client, tool: str, **arguments) -> dict:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return json.loads(text_of(result))


async def search(client: Client, **arguments) -> dict:
    return await good(client, "search_documentation", **{"query": QUESTION, **arguments})


async def answer(client: Client, **arguments) -> dict:
    return await good(client, "answer_with_citations", query="What are seizures?", **arguments)


async def bad(client: Client, tool: str = "search_documentation", **arguments) -> dict:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return json.loads(text_of(result))


def paths_of(problem: dict) -> list[str]:
    return sorted(error["path"] for error in problem["errors"])


async def assert_schema(client: Client, **results: dict) -> None:
    """Require that each tool's result has its published schema."""
    tools = await tools_of(client)
    for name, result in results.items():
        Draft202012Validator(tools[name].output_schema).validate(result)


def assert_strict(schema: dict) -> None:
    """Require one type of each value, without null, and the type of each item."""
    assert isinstance(schema["type"], str) and schema["type"] != "null", schema
    if schema["type"] == "array":
        assert_strict(schema["items"])
    for part in schema.get("properties", {}).values():
        assert_strict(part)


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_tools_are_listed_with_precise_schemas(url, mode) -> None:
    async with Client(url, mode=mode) as client:
        tools = await tools_of(client)
    assert set(tools) == TOOLS
    listing = [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools.values()]
    listed = json.dumps(listing, separators=(",", ":"))
    assert len(listed.encode()) <= 12_000
    assert "$ref" not in listed and "anyOf" not in listed
    for tool in tools.values():
        assert_strict(tool.input_schema)
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.annotations is not None and tool.annotations.read_only_hint is True
        for name, part in tool.input_schema["properties"].items():
            assert part.get("description"), (tool.name, name)
    for name in TOOLS - {"search", "fetch"}:
        options = {"max_response_tokens", "numbers"}
        assert options <= set(tools[name].input_schema["properties"])
    search = Draft202012Validator(tools["search_documentation"].input_schema)
    assert search.is_valid({"query": "abc", "top_k": 3, "max_response_tokens": 500})
    for wrong in (
        {"query": "abc", "top_k": 0},
        {"query": "abc", "max_response_tokens": 99},
        {"top_k": 3},
    ):
        assert not search.is_valid(wrong), wrong


SURROGATE_TOKEN = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name":'
    b' "search_documentation", "arguments": {"query": "valve opens"},'
    b' "_meta": {"progressToken": "\\ud800"}}}'
)


async def test_connectors_search_and_fetch(client) -> None:
    result = await good(client, "search", query=QUESTION)
    first = result["results"][0]
    assert set(first) == {"id", "title", "url"}
    document = await good(client, "fetch", id=first["id"])
    assert (document["id"], document["title"]) == (first["id"], first["title"])
    assert first["url"].startswith(("https://", "docstokg://default/passages/"))
    passage = await good(client, "read_passage", uuid=first["id"].rpartition("/")[2])
    assert passage["text"] in document["text"]
    assert paths_of(await bad(client, "fetch", id="")) == ["$.id"]


async def test_documents_and_passages_are_resources(client) -> None:
    async def contents_of(uri: str) -> str:
        (contents,) = (await client.read_resource(uri)).contents
        return contents.text

    page = await client.list_resources()
    seen = {resource.name: resource for resource in page.resources}
    while page.next_cursor is not None:
        page = await client.list_resources(cursor=page.next_cursor)
        seen |= {resource.name: resource for resource in page.resources}
    documents = await good(client, "list_documents", max_response_tokens=None)
    assert {document["doc_id"] for document in documents["documents"]} <= set(seen)
    result = await client.call_tool("search_documentation", {"query": QUESTION})
    _, *links = result.content
    citations = result.structured_content["citations"]
    assert [link.name for link in links] == [f"[{n + 1}]" for n in range(len(links))]
    assert len(links) > 0
    for link, citation in zip(links, citations, strict=False):
        assert citation["passage"] in await contents_of(link.uri)
    for resource in list(seen.values())[:3]:
        assert await contents_of(resource.uri)
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.name for template in templates] == ["passage", "document"]
    for unknown in ("docstokg://default/passages/none", "docstokg://other/documents/a", "x:y"):
        with pytest.raises(MCPError):
            await client.read_resource(unknown)


async def test_numbers_in_strings_and_default_nulls_are_read(client) -> None:
    arguments = {"top_k": "2", "namespace": None, "max_response_tokens": "900"}
    budget = {"max_chunks": "2", "timeout_s": "5.5", "max_tokens_context": None}
    body = await search(client, **arguments, budget=budget)
    assert len(body["citations"]) == 2
    problem = await bad(client, query=None, top_k="two")
    assert paths_of(problem) == ["$.query", "$.top_k"]


def meta(version: str) -> dict:
    keys = ("protocolVersion", "clientCapabilities")
    values = zip(keys, (version, {}), strict=True)
    return {"_meta": {f"io.modelcontextprotocol/{key}": value for key, value in values}}


LATER = meta("2026-07-28")
RIGHT = {"mcp-method": "tools/list", "mcp-protocol-version": "2026-07-28"}
CALL = {"mcp-method": "tools/call", "mcp-protocol-version": "2026-07-28"}
TOOL = {"name": "list_namespaces", "arguments": {}}


@pytest.mark.parametrize(
    ("method", "params", "headers", "code"),
    [
        ("tools/list", LATER, RIGHT, None),
        ("tools/list", LATER, {}, -32020),
        ("tools/list", LATER, RIGHT | {"mcp-method": "tools/call"}, -32020),
        ("tools/list", LATER, RIGHT | {"mcp-protocol-version": "2025-11-25"}, -32020),
        ("tools/call", LATER | TOOL, CALL, -32020),
        ("tools/call", LATER | TOOL, CALL | {"mcp-name": "search"}, -32020),
        ("tools/call", LATER | TOOL, CALL | {"mcp-name": "list_namespaces"}, None),
        ("tools/call", LATER | TOOL, CALL | {"mcp-name": "=?base64?bGlzdF9uYW1lc3BhY2Vz?="}, None),
        ("tools/list", {}, {}, None),
        ("tools/list", {}, {"mcp-protocol-version": "2025-11-25"}, None),
        ("tools/list", {}, {"mcp-protocol-version": "1999-01-01"}, -32020),
        ("tools/list", {}, {"mcp-method": "tools/call"}, -32020),
    ],
)
async def test_headers_that_contradict_the_body_are_refused(
    url, method, params, headers, code
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with httpx2.AsyncClient() as http:
        response = await http.post(url, json=message, headers=headers)
    body = response.json()
    if code is None:
        assert response.status_code == 200 and "result" in body
    else:
        assert (response.status_code, body["error"]["code"]) == (400, code)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_tool_answers_as_its_route_does(url, mode) -> None:
    async with Client(url, mode=mode) as client:
        body = await search(client, **WHOLE)
    async with httpx2.AsyncClient() as http:
        route = url.replace("/mcp", "/v1/search")
        same = (await http.post(route, json={"query": QUESTION})).json()
    assert body["more"] == 0
    for citation in [*body["citations"], *same["citations"]]:
        del citation["provenance"]["retrieved_at"]
    assert body["citations"] == same["citations"] != []
    assert set(same) <= set(body)


async def test_an_answer_and_its_check(client) -> None:
    synthesis = {"enabled": True, "model": "extractive"}
    body = await answer(client, budget={"max_tokens_gen": 200}, synthesis=synthesis, **WHOLE)
    citations = [{"rank": c["rank"], "uuid": c["uuid"]} for c in body["citations"]]
    draft = {"text": body["answer"], "citations": citations}
    checked = await good(client, "check_grounding", **draft, **WHOLE)
    assert re.search(r"\[\d\]", body["answer"])
    assert checked["grounding"]["grounded"] is True


async def test_answers_are_compact_and_structured_by_default(client) -> None:
    body = await answer(client)
    whole = await answer(client, numbers=True)
    none = await answer(client, synthesis={"enabled": False})
    wrong = await bad(client, "answer_with_citations", query="What?", synthesis={"model": "gpt-9"})
    await assert_schema(client, answer_with_citations=body)
    assert body["answer"] == whole["answer"] != ""
    assert body["grounded"] is whole["grounding"]["grounded"] is True
    assert whole["grounding"]["coverage"] == 1.0
    cited = [citation for citation in body["citations"] if citation.get("cited")]
    assert cited
    for citation in cited:
        assert citation["marker"] in body["answer"]
        (same,) = [c for c in whole["citations"] if c["uuid"] == citation["uuid"]]
        assert citation["passage"] == same["snippet"]
        assert citation["why"].startswith("by ") or citation["why"].startswith("graph")
    for number in ("score", "text_sha256", "char_start", "timings_ms"):
        assert number not in json.dumps(body)
    assert "answer" not in none
    assert none["citations"]
    assert paths_of(wrong) == ["$.synthesis.model"]


async def test_results_have_two_thousand_tokens_by_default(client) -> None:
    arguments = {"verbosity": "graph", "numbers": True}
    shorter = await search(client, **arguments)
    complete = await search(client, **arguments, max_response_tokens=None)
    assert tokens(complete) > 2000 >= tokens(shorter)
    assert complete["more"] == 0
    assert shorter["more"] == len(complete["citations"]) - len(shorter["citations"])
    assert shorter["more"] or shorter["graph"]["more"]


async def test_documents_are_listed_and_citations_read_in_context(client) -> None:
    listed = await good(client, "list_documents")
    spaces = await good(client, "list_namespaces")
    first = (await search(client))["citations"][0]
    passage = await good(client, "read_passage", uuid=first["uuid"])
    missing = await bad(client, "read_passage", uuid="no-such-passage")
    await assert_schema(client, list_documents=listed, list_namespaces=spaces, read_passage=passage)
    (space,) = spaces["namespaces"]
    assert (space["namespace"], space["unfinished"], space["jobs"]) == ("default", False, 0)
    assert space["documents"] > 0
    assert "d-seizure" in {document["doc_id"] for document in listed["documents"]}
    assert first["passage"] in passage["text"]
    assert (passage["doc_id"], missing["status"]) == (first["doc_id"], 404)


async def test_a_walk_and_its_flag(client, server_for) -> None:
    tool, seeds = "traverse_relationships", {"seed_ids": ["MONDO:0100135"]}
    arguments = {**seeds, "query": "febrile seizures"}
    whole = await good(client, tool, **arguments, max_response_tokens=None)
    first = await good(client, tool, **arguments, max_response_tokens=150)
    by_weight = await good(client, tool, **seeds)
    problem = await bad(client, tool, seed_ids=[], query="abc")
    assert first["nodes"] == whole["nodes"][: len(first["nodes"])] != []
    assert first["more"] == len(whole["nodes"]) - len(first["nodes"]) > 0
    assert "MONDO:0100135" in {node["id"] for node in first["nodes"]}
    assert {"MONDO:0100135", "HP:0001250"} <= {node["id"] for node in by_weight["nodes"]}
    assert paths_of(problem) == ["$.seed_ids"]
    async with Client(f"{server_for(feature_traversal_tool=False)}/mcp") as without:
        assert set(await tools_of(without)) == TOOLS - {tool}


@pytest.mark.parametrize("limit", [100, 200, 400, 1000])
async def test_a_result_has_the_requested_size(client, limit) -> None:
    whole = await search(client, top_k=7, max_response_tokens=None)
    body = await search(client, top_k=7, max_response_tokens=limit)
    assert tokens(body) <= limit
    markers = [citation["marker"] for citation in whole["citations"]]
    kept = [citation["marker"] for citation in body["citations"]]
    assert kept == markers[: len(markers) - body["more"]]
    assert body["more"] == 0 or limit < 1000


async def test_problems_are_tool_errors(client) -> None:
    problem = await bad(client, query="", top_k=0, nonsense=1)
    assert problem["status"] == 400
    assert paths_of(problem) == ["$.nonsense", "$.query", "$.top_k"]
    problem = await bad(client, query="", max_response_tokens=1, numbers=3)
    assert paths_of(problem) == ["$.max_response_tokens", "$.numbers", "$.query"]
    problem = await bad(client, query=QUESTION, numbers=True, max_response_tokens=100)
    assert (problem["status"], problem["code"]) == (400, "limit_too_small")
    with pytest.raises(MCPError) as refused:
        await client.call_tool("traverse_the_moon", {})
    assert refused.value.error.code == -32602


async def test_a_key_is_needed_where_keys_are(server_for, tmp_path) -> None:
    keys = keyed(tmp_path, {"guest-key": {"namespaces": ["open"], "groups": []}})
    url = f"{server_for(**keys)}/mcp"

    @asynccontextmanager
    async def with_key(key: str):
        async with httpx2.AsyncClient(headers={"X-Api-Key": key}) as http:
            yield streamable_http_client(url, http_client=http)

    async with with_key("guest-key") as transport, Client(transport) as client:
        problem = await bad(client, query=QUESTION, namespace="default")
        assert (problem["status"], problem["code"]) == (403, "namespace_not_granted")
        await search(client, namespace="open")
    with pytest.raises(Exception, match=r"."):
        async with with_key("unknown") as transport, Client(transport):
            pass
    async with httpx2.AsyncClient() as http:
        assert (await http.post(url, json={})).status_code == 401


async def test_invalid_protocol_messages_are_refused(url) -> None:
    async with httpx2.AsyncClient() as http:

        async def post(content: bytes, status: int, **headers) -> dict:
            kind = {"content-type": "application/json", **headers}
            response = await http.post(url, content=content, headers=kind)
            assert response.status_code == status, response.text
            return response.json() if response.content else {}

        assert (await post(b"{", 400))["error"]["code"] == -32700
        assert (await post(b"[" * 50_000, 400))["error"]["code"] == -32700
        assert (await post(b"\xff", 400))["error"]["code"] == -32700
        streaming = {"accept": "application/json, text/event-stream"}
        assert (await post(SURROGATE_TOKEN, 400, **streaming))["error"]["code"] == -32700
        for odd in (b"[]", b"3", b'{"id": 1}', b'{"jsonrpc":"2.0","id":null,"method":"ping"}'):
            assert (await post(odd, 400))["error"]["code"] == -32600
        unknown = {"jsonrpc": "2.0", "id": "a", "method": "no/such"}
        assert (await post(json.dumps(unknown).encode(), 200))["error"]["code"] == -32601
        ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        ping_bytes = json.dumps(ping).encode()
        assert await post(ping_bytes, 200) == {"jsonrpc": "2.0", "id": 7, "result": {}}
        headers = {"mcp-method": "ping", "mcp-protocol-version": "2099-01-01"}
        later = json.dumps({**ping, "params": meta("2099-01-01")}).encode()
        refused = await post(later, 400, **headers)
        assert refused["error"]["code"] == -32022
        assert "2026-07-28" in refused["error"]["data"]["supported"]
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert await post(json.dumps(note).encode(), 202) == {}
        assert (await post(b" " * 70_000, 413))["code"] == "body_too_large"
        for origin in ("https://evil.example", "null", "http://["):
            assert (await post(ping_bytes, 403, origin=origin))["code"] == "foreign_origin"
        await post(ping_bytes, 200, origin="http://localhost:3000")
        assert (await http.get(url)).status_code == 405


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_same_over_a_pipe(small_store, cache_dir, tmp_path, mode) -> None:
    store = f"sqlite:///{small_store}"
    path = os.pathsep.join(str(ROOT / part) for part in (".", "layers/common/python", "local"))
    environment = {"DOCSTOKG_CACHE_DIR": str(cache_dir), "HOME": str(tmp_path), "PATH": os.defpath}
    program = "from docstokg_local.cli.commands import main; main()"
    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", program, "mcp", "--index", store],
        env={"PYTHONPATH": path, **environment},
    )
    async with Client(server, mode=mode) as client:
        assert set(await tools_of(client)) == TOOLS
        whole = await search(client, **WHOLE)
        first = await search(client, max_response_tokens=300)
        assert "seizure" in {citation["chunk_id"] for citation in whole["citations"]}
        uuids = [citation["uuid"] for citation in whole["citations"]]
        assert [citation["uuid"] for citation in first["citations"]] == uuids[: -first["more"]]
        assert (await search(client, query="C#"))["citations"]
        problem = await bad(client, "check_grounding", text="", namespace="UPPER")
        assert paths_of(problem) == ["$.namespace", "$.text"]
