"""MCP tools over HTTP routes."""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic import BaseModel

from docstokg.contracts import Json
from docstokg.contracts.check import CheckRequest
from docstokg.contracts.documents import DocumentsQuery, NamespacesQuery, PassageRequest
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.request import RAGRequest, SearchRequest, padded
from docstokg.contracts.routes import RouteName
from docstokg.contracts.tools import (
    DEFAULT_RESPONSE_TOKENS,
    MIN_RESPONSE_TOKENS,
    AnswerResult,
    CheckResult,
    DocumentsResult,
    FetchRequest,
    FetchResult,
    FoundResult,
    NamespacesResult,
    PassageResult,
    ResultOptions,
    SearchResult,
    ToolResult,
    WalkResult,
    input_schema,
    lenient,
)
from docstokg.contracts.traverse import TraverseRequest
from docstokg.observability import Telemetry
from docstokg.usecases.intake import invalid, parse
from docstokg.usecases.links import is_web, passage_link
from docstokg.usecases.problems import problem_reply, replied
from docstokg_functions.mcp.compact import (
    compact_answer,
    compact_check,
    compact_documents,
    compact_fetched,
    compact_found,
    compact_namespaces,
    compact_passage,
    compact_search,
    compact_walk,
)
from docstokg_functions.mcp.resources import passage_uri
from docstokg_functions.mcp.size_limit import TooLarge, byte_count, cut, dump

BYTES_PER_TOKEN = 4
SYNTHESIS_TOKENS = 512


class Tool(NamedTuple):
    """One tool: its contract and route.

    `fields`: request fields in the published schema. `parts`: lists that a size limit cuts, in this
    order. `compact`: returns the response as `result`. `has_options`: accepts `ResultOptions`.
    `body`: returns the route's request for valid arguments.
    """

    name: str
    description: str
    route: RouteName
    request: type[BaseModel]
    fields: tuple[str, ...]
    parts: tuple[str, ...]
    result: type[ToolResult]
    compact: Callable[[Json, Json], Json]
    has_options: bool = True
    body: Callable[[Json], Json] = dict

    def input_schema(self) -> Json:
        """Return the JSON schema of the published arguments, with the result's options."""
        schema = input_schema(self.request, self.fields)
        if self.has_options:
            options = input_schema(ResultOptions, tuple(ResultOptions.model_fields))
            schema["properties"] |= options["properties"]
        return schema


class Service(NamedTuple):
    """The target of tool calls: `runs` has the available routes.

    `model` writes answers if a call specifies none. `public_url`: address of the page, or "".
    """

    runs: Mapping[RouteName, Callable[[Envelope], Reply]]
    model: str | None
    telemetry: Telemetry
    public_url: str = ""


class Outcome(NamedTuple):
    """A tool call's result, or a problem.

    `spare`: bytes left of the size limit, None without one. `namespace`: of its passages, if they
    name none.
    """

    text: str
    failed: bool
    spare: int | None = 0
    namespace: str = ""


def passage_of(arguments: Json) -> Json:
    """Return the passage route's request for fetch's `id`: NAMESPACE/UUID or UUID."""
    namespace, _, uuid = str(arguments["id"]).rpartition("/")
    return {"uuid": uuid, **({"namespace": namespace} if namespace else {})}


SCOPE = ("namespace", "namespaces", "filter")
WALK = ("seed_ids", "query", "namespace", "direction", "max_depth", "rel_whitelist", "cursor")

TOOLS = (
    Tool(
        "search_documentation",
        "Find passages that answer a question by hybrid search and the knowledge graph. "
        "Each passage has its source and the reason why it was found.",
        "search",
        SearchRequest,
        ("query", "top_k", *SCOPE, "verbosity"),
        ("graph", "citations"),
        SearchResult,
        compact_search,
    ),
    Tool(
        "answer_with_citations",
        "Answer a question from the documentation. Markers [n] refer to citations; unsupported "
        "sentences are listed as doubtful. With synthesis.enabled false, only the evidence is "
        "returned.",
        "answer",
        RAGRequest,
        ("query", "history", *SCOPE, "verbosity"),
        ("graph", "doubtful", "citations"),
        AnswerResult,
        compact_answer,
    ),
    Tool(
        "check_grounding",
        "Check each sentence of a draft against given citations or retrieved passages, and its "
        "ids, labels and relations against the ontology. No answer is generated.",
        "check",
        CheckRequest,
        ("text", "citations", "sources", "query", "namespace"),
        ("issues", "sentences"),
        CheckResult,
        compact_check,
    ),
    Tool(
        "traverse_relationships",
        "Walk the knowledge graph from given nodes towards a question. Only new nodes that are "
        "similar to the question are expanded, within the limits of the server.",
        "traverse",
        TraverseRequest,
        WALK,
        ("nodes",),
        WalkResult,
        compact_walk,
    ),
    Tool(
        "list_documents",
        "List the loaded documents that the caller may read, by id.",
        "documents",
        DocumentsQuery,
        ("namespace", "cursor"),
        ("documents",),
        DocumentsResult,
        compact_documents,
    ),
    Tool(
        "list_namespaces",
        "List the namespaces that the caller may read, with unfinished loads and waiting jobs.",
        "namespaces",
        NamespacesQuery,
        (),
        ("namespaces",),
        NamespacesResult,
        compact_namespaces,
    ),
    Tool(
        "read_passage",
        "Read a cited passage with the text before and after it.",
        "passage",
        PassageRequest,
        ("uuid", "namespace", "context"),
        (),
        PassageResult,
        compact_passage,
    ),
    Tool(
        "search",
        "Search for passages; fetch reads a result.",
        "search",
        SearchRequest,
        ("query",),
        ("results",),
        FoundResult,
        compact_found,
        has_options=False,
    ),
    Tool(
        "fetch",
        "Read a result of search with the text around it.",
        "passage",
        FetchRequest,
        ("id",),
        (),
        FetchResult,
        compact_fetched,
        has_options=False,
        body=passage_of,
    ),
)


def with_answer(arguments: Json, model: str | None) -> Json:
    """Return the arguments with synthesis, by default by `model`.

    Unchanged if invalid, disabled or without any model.
    """
    synthesis, budget = arguments.get("synthesis", {}), arguments.get("budget", {})
    if not isinstance(synthesis, dict) or not isinstance(budget, dict):
        return arguments
    if model is None and "model" not in synthesis:
        return arguments
    synthesis = {"enabled": True, **({} if "model" in synthesis else {"model": model}), **synthesis}
    if synthesis["enabled"] is not True:
        return arguments
    budget = {"max_tokens_gen": SYNTHESIS_TOKENS, **budget}
    return {**arguments, "synthesis": synthesis, "budget": budget}


def call_tool(tool: Tool, arguments: Json, service: Service, message: Envelope) -> Outcome:
    """Run the tool's route and return its response, or a problem.

    The text has at most `max_response_tokens` tokens of four bytes, also for problems.
    """
    names = ResultOptions.model_fields
    arguments = lenient(arguments, ResultOptions)
    chosen = {name: arguments[name] for name in names if name in arguments}
    body = {name: value for name, value in arguments.items() if name not in names}
    body = lenient(body, tool.request)
    if isinstance(body.get("query"), str):
        body = {**body, "query": padded(body["query"])}
    if tool.route == "answer":
        body = with_answer(body, service.model)
    max_bytes = _max_bytes(chosen.get("max_response_tokens", DEFAULT_RESPONSE_TOKENS))
    options, errors = parse(_bytes(chosen), ResultOptions)
    valid, body_errors = parse(_bytes(body), tool.request)
    if options is None or valid is None:
        return _failed(invalid(errors + body_errors, message.request_id), max_bytes)
    reply = run_route(tool.route, tool.body(body), service, message)
    if reply.statusCode != 200:
        return _failed(reply, max_bytes)
    document = json.loads(reply.body)
    namespace = (document.get("metadata") or body).get("namespace") or "default"
    if not options.numbers:
        _add_addresses(document, namespace, service.public_url)
        document = tool.compact(document, body)
    try:
        text = dump(cut(document, tool.parts, max_bytes))
    except TooLarge:
        detail = "The result does not fit into max_response_tokens; pass more, or null."
        problem = problem_reply(400, "limit_too_small", detail, message.request_id)
        return _failed(problem, max_bytes)
    spare = None if max_bytes is None else max_bytes - len(text.encode())
    return Outcome(text, failed=False, spare=spare, namespace=namespace)


def _add_addresses(document: Json, namespace: str, public_url: str) -> None:
    for passage in document.get("citations", [document] if "uuid" in document else ()):
        home, uuid = passage.get("namespace") or namespace, passage["uuid"]
        passage["id"] = f"{home}/{uuid}"
        if public_url:
            passage["url"] = passage_link(public_url, home, passage["doc_id"], uuid)
        else:
            is_page = is_web(passage["uri"])
            passage["url"] = passage["uri"] if is_page else passage_uri(home, uuid)


def _max_bytes(limit: object) -> int | None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < MIN_RESPONSE_TOKENS:
        return None
    return limit * BYTES_PER_TOKEN


def run_route(route: RouteName, body: Json, service: Service, message: Envelope) -> Reply:
    """Return a route's reply or problem; raise KeyError for an unavailable route."""
    envelope = Envelope.of(route, message.request_id, message.caller, _bytes(body))
    return replied(service.runs[route], envelope, service.telemetry)


def _failed(reply: Reply, max_bytes: int | None) -> Outcome:
    problem = json.loads(reply.body)
    if max_bytes is not None and byte_count(problem) > max_bytes:
        problem = cut(problem, ("errors",), max_bytes)
    return Outcome(dump(problem), failed=True)


def _bytes(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
