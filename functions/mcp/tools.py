"""MCP tools over HTTP routes."""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic import BaseModel

from docstokg.contracts import Json
from docstokg.contracts.check import CheckRequest
from docstokg.contracts.documents import DocumentsQuery, NamespacesQuery, PassageRequest
from docstokg.contracts.envelope import Caller, Envelope, Reply
from docstokg.contracts.request import RAGRequest, SearchRequest
from docstokg.contracts.response import FieldProblem
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
    Page,
    Paging,
    PassageResult,
    SearchResult,
    WalkResult,
    input_schema,
    lenient,
)
from docstokg.contracts.traverse import TraverseRequest
from docstokg.errors import InvalidCursor
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
from docstokg_functions.mcp.cursor import (
    Cursor,
    cursor_from,
    facts_digest,
    request_digest,
    run_name,
)
from docstokg_functions.mcp.paging import START, NoSuchPosition, PageTooSmall, page_of
from docstokg_functions.mcp.resources import passage_uri

BYTES_PER_TOKEN = 4
SYNTHESIS_TOKENS = 512
CHANGED = "The results changed after the previous page. Repeat the call without a cursor."


class Tool(NamedTuple):
    """One tool: its contract and route.

    `shown`: request fields in the published schema. `facts`: parts of the response that are equal
    on all pages. `compact`: returns the response as `result`. `stored`: responses can be cached.
    `body`: returns the route's request for valid arguments.
    """

    name: str
    description: str
    route: RouteName
    request: type[BaseModel]
    shown: tuple[str, ...]
    facts: tuple[str, ...]
    result: type[Page]
    compact: Callable[[Json, Json], Json]
    stored: bool = False
    is_paged: bool = True
    body: Callable[[Json], Json] = dict

    def input_schema(self) -> Json:
        """Return the JSON schema of the shown arguments, with paging."""
        schema = input_schema(self.request, self.shown)
        if self.is_paged:
            schema["properties"] |= input_schema(Paging, tuple(Paging.model_fields))["properties"]
        return schema


class Service(NamedTuple):
    """The target of tool calls: `runs` has the available routes, `cursor_key` signs cursors.

    `model` writes answers if a call specifies none. `public_url`: address of the page, or "".
    """

    runs: Mapping[RouteName, Callable[[Envelope], Reply]]
    model: str | None
    cursor_key: bytes
    telemetry: Telemetry
    public_url: str = ""


class Outcome(NamedTuple):
    """A page of a tool call's response, or a problem.

    `spare`: bytes left of the page's limit, None without one. `namespace`: of its passages, if they
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
        ("citations", "graph"),
        SearchResult,
        compact_search,
        stored=True,
    ),
    Tool(
        "answer_with_citations",
        "Answer a question from the documentation. Markers [n] refer to citations; unsupported "
        "sentences are listed as doubtful. With synthesis.enabled false, only the evidence is "
        "returned.",
        "answer",
        RAGRequest,
        ("query", "history", *SCOPE, "verbosity"),
        ("answer", "citations", "grounding", "graph"),
        AnswerResult,
        compact_answer,
        stored=True,
    ),
    Tool(
        "check_grounding",
        "Check each sentence of a draft against given citations or retrieved passages, and its "
        "ids, labels and relations against the ontology. No answer is generated.",
        "check",
        CheckRequest,
        ("text", "citations", "sources", "query", "namespace"),
        ("grounding", "consistency"),
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
        ("nodes", "edges"),
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
        ("text",),
        PassageResult,
        compact_passage,
    ),
    Tool(
        "search",
        "Search for passages; fetch reads a result.",
        "search",
        SearchRequest,
        ("query",),
        ("citations",),
        FoundResult,
        compact_found,
        stored=True,
        is_paged=False,
    ),
    Tool(
        "fetch",
        "Read a result of search with the text around it.",
        "passage",
        FetchRequest,
        ("id",),
        ("text",),
        FetchResult,
        compact_fetched,
        is_paged=False,
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
    made = {"enabled": True, **({} if "model" in synthesis else {"model": model}), **synthesis}
    if made["enabled"] is not True:
        return arguments
    budget = {"max_tokens_gen": SYNTHESIS_TOKENS, **budget}
    return {**arguments, "synthesis": made, "budget": budget}


def call_tool(
    tool: Tool,
    arguments: Json,
    service: Service,
    caller: Caller,
    request_id: str,
) -> Outcome:
    """Run the tool's route and return a page of its response, or a problem.

    The text has at most `max_response_tokens` tokens of four bytes, also for problems.
    """
    read = lenient(arguments, Paging)
    paged = {name: read[name] for name in Paging.model_fields if name in read}
    body = {name: value for name, value in arguments.items() if name not in Paging.model_fields}
    body = lenient(body, tool.request)
    if tool.route == "answer":
        body = with_answer(body, service.model)
    max_bytes = _max_bytes(paged.get("max_response_tokens", DEFAULT_RESPONSE_TOKENS))
    paging, errors = parse(_bytes(paged), Paging)
    valid, wrong = parse(_bytes(body), tool.request)
    if paging is None or valid is None:
        return _failed(invalid(errors + wrong, request_id), max_bytes)
    request = request_digest(tool.name, {**body, "numbers": paging.numbers}, caller)
    try:
        text = paging.response_cursor
        cursor = cursor_from(text, request, service.cursor_key) if text is not None else None
    except InvalidCursor as exc:
        where = FieldProblem(path="$.response_cursor", code="invalid_cursor", message=str(exc))
        return _failed(invalid([where], request_id), max_bytes)
    run = run_name(request_id) if cursor is None else cursor.run
    if tool.stored and body.get("cache_key") is None and max_bytes is not None:
        # All pages of a response come from one run, if the cache can store it.
        body["cache_key"] = f"pages:{run.hex()}"
    reply = asked(tool.route, tool.body(body), service, caller, request_id)
    if reply.statusCode != 200:
        return _failed(reply, max_bytes)
    document = json.loads(reply.body)
    facts = facts_digest(document, tool.facts)
    namespace = (document.get("metadata") or body).get("namespace") or "default"
    if not paging.numbers:
        _add_addresses(document, namespace, service.public_url)
    if cursor is not None and cursor.facts != facts:
        return _failed(problem_reply(409, "result_changed", CHANGED, request_id), max_bytes)
    try:
        page = page_of(
            document if paging.numbers else tool.compact(document, body),
            START if cursor is None else cursor.position,
            max_bytes,
            lambda position: Cursor(facts, run, position).sealed(request, service.cursor_key),
        )
    except NoSuchPosition:
        # The facts are unchanged, but other parts differ: timings, reasons.
        return _failed(problem_reply(409, "result_changed", CHANGED, request_id), max_bytes)
    except PageTooSmall as exc:
        detail = f"max_response_tokens has no room for {exc}."
        return _failed(problem_reply(400, "page_too_small", detail, request_id), max_bytes)
    spare = None if max_bytes is None else max_bytes - _size(page.text)
    return Outcome(page.text, failed=False, spare=spare, namespace=namespace)


def _add_addresses(document: Json, namespace: str, public_url: str) -> None:
    for one in document.get("citations", [document] if "uuid" in document else ()):
        where = one.get("namespace") or namespace
        one["id"] = f"{where}/{one['uuid']}"
        if public_url:
            one["url"] = passage_link(public_url, where, one["doc_id"], one["uuid"])
        else:
            one["url"] = one["uri"] if is_web(one["uri"]) else passage_uri(where, one["uuid"])


def _max_bytes(limit: object) -> int | None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < MIN_RESPONSE_TOKENS:
        return None
    return limit * BYTES_PER_TOKEN


def asked(route: RouteName, body: Json, service: Service, caller: Caller, request_id: str) -> Reply:
    """Return a route's reply or problem; raise KeyError for an unavailable route."""
    envelope = Envelope.of(route, request_id, caller, _bytes(body))
    return replied(service.runs[route], envelope, service.telemetry)


def _failed(reply: Reply, max_bytes: int | None) -> Outcome:
    if max_bytes is None or _size(reply.body) <= max_bytes:
        return Outcome(reply.body, failed=True)
    problem = json.loads(reply.body)
    return Outcome(page_of(problem, START, max_bytes, lambda _: None).text, failed=True)


def _size(text: str) -> int:
    return len(text.encode("utf-8"))


def _bytes(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
