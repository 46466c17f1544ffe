"""Model Context Protocol without sessions.

Requests with a version in `params._meta` (2026-07-28 on) need no `initialize`.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequestParams,
    CallToolResult,
    DiscoverResult,
    EmptyResult,
    Implementation,
    InitializeRequestParams,
    InitializeResult,
    JSONRPCNotification,
    JSONRPCRequest,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ResourceLink,
    ResourcesCapability,
    Result,
    ServerCapabilities,
    TextContent,
    ToolAnnotations,
    ToolsCapability,
)
from mcp_types import Tool as ListedTool
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    KNOWN_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

from docstokg import __version__
from docstokg.contracts import Json
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.routes import RouteName
from docstokg.contracts.tools import output_schema
from docstokg.usecases.intake import decode_body
from docstokg_functions.mcp.resources import (
    LIST_FRESH_MS,
    NoResource,
    listed_resources,
    passage_uri,
    read_resource,
    resource_templates,
)
from docstokg_functions.mcp.size_limit import dump
from docstokg_functions.mcp.tools import Outcome, Service, Tool, call_tool, run_route

SERVER = Implementation(name="docstokg", title="DocsToKG RAG", version=__version__)
CAPABILITIES = ServerCapabilities(
    tools=ToolsCapability(list_changed=False), resources=ResourcesCapability(list_changed=False)
)
INSTRUCTIONS = (
    "Evidence from a corpus and its knowledge graph. Search or answer first, cite by marker, read "
    "a passage in its context where a snippet is not enough, and check a draft before you rely on "
    "it. A result has at most max_response_tokens (2000, of four bytes each); `more` counts the "
    "passages left out: raise the limit, or lower top_k."
)
# Fields of the later generation, which strict clients of the earlier one refuse.
LATER_FIELDS = ("resultType", "ttlMs", "cacheScope")
# Parameter that the header `Mcp-Name` repeats, by method.
NAMED_BY = {"tools/call": "name", "resources/read": "uri"}
JSON_TYPE = {"Content-Type": "application/json"}


class Refused(Exception):
    """A message answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


def answer(envelope: Envelope, *, tools: Sequence[Tool], service: Service) -> Reply:
    """Return 200 with a result or an error for one JSON-RPC message, 202 for a notification.

    400 and 404 with a JSON-RPC error for an invalid or unsupported request; 413 as a problem for a
    too large body.
    """
    body = decode_body(envelope.body_b64, envelope.request_id)
    if isinstance(body, Reply):
        return body
    try:
        decoded = json.loads(body.decode("utf-8"))
        json.dumps(decoded, ensure_ascii=False).encode()  # refuses lone surrogates
    except (ValueError, RecursionError):
        return _error(Refused(PARSE_ERROR, "Parse error"), None, 400)
    try:
        if isinstance(decoded, dict) and "id" not in decoded:
            JSONRPCNotification.model_validate(decoded)
            # No state is kept across requests, so notifications have no effect.
            return Reply(statusCode=202, body="", headers=JSON_TYPE)
        request = JSONRPCRequest.model_validate(decoded)
    except ValidationError:
        message = "The body must be one JSON-RPC request or notification"
        return _error(Refused(INVALID_REQUEST, message), None, 400)
    meta = (request.params or {}).get("_meta")
    modern = isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
    try:
        if envelope.headers is not None:
            headers = {name.lower(): value for name, value in envelope.headers.items()}
            _check_headers(headers, request, meta if modern else None)
        if isinstance(meta, dict) and modern:
            _check_version(meta)
        result = _result(envelope, request, tools, service, modern)
    except Refused as exc:
        status = 404 if exc.code == METHOD_NOT_FOUND else 400
        is_http_error = modern or exc.code == HEADER_MISMATCH
        return _error(exc, request.id, status if is_http_error else 200)
    except ValidationError as exc:
        paths = [".".join(map(str, error["loc"])) for error in exc.errors()]
        refused = Refused(INVALID_PARAMS, "Invalid params", paths)
        return _error(refused, request.id, 400 if modern else 200)
    return _reply({"jsonrpc": "2.0", "id": request.id, "result": _shaped(result, modern)})


def _result(
    envelope: Envelope,
    request: JSONRPCRequest,
    tools: Sequence[Tool],
    service: Service,
    modern: bool,
) -> Result:
    method, params = request.method, request.params or {}
    if method == "tools/call":
        return _called(envelope, params, tools, service)
    if method.startswith("resources/") and "passage" in service.runs:
        return _resources(envelope, method, params, service)
    if method == "tools/list":
        PaginatedRequestParams.model_validate(params)
        return ListToolsResult(tools=[_listed(tool) for tool in tools], ttl_ms=LIST_FRESH_MS)
    if method == "ping":
        return EmptyResult(result_type="complete")
    if method == "server/discover" and modern:
        return DiscoverResult(
            supported_versions=list(KNOWN_PROTOCOL_VERSIONS),
            capabilities=CAPABILITIES,
            instructions=INSTRUCTIONS,
            ttl_ms=LIST_FRESH_MS,
        )
    if method == "initialize" and not modern:
        version = InitializeRequestParams.model_validate(params).protocol_version
        is_supported = version in HANDSHAKE_PROTOCOL_VERSIONS
        return InitializeResult(
            protocol_version=version if is_supported else LATEST_HANDSHAKE_VERSION,
            capabilities=CAPABILITIES,
            server_info=SERVER,
            instructions=INSTRUCTIONS,
        )
    raise Refused(METHOD_NOT_FOUND, "Method not found")


def _resources(envelope: Envelope, method: str, params: Json, service: Service) -> Result:
    def run(route: RouteName, body: Json) -> Reply:
        return run_route(route, body, service, envelope)

    try:
        if method == "resources/list":
            cursor = PaginatedRequestParams.model_validate(params).cursor
            return listed_resources(cursor, run)
        if method == "resources/templates/list":
            return resource_templates()
        if method == "resources/read":
            return read_resource(str(ReadResourceRequestParams.model_validate(params).uri), run)
    except NoResource as missing:
        raise Refused(INVALID_PARAMS, str(missing)) from missing
    raise Refused(METHOD_NOT_FOUND, "Method not found")


def _called(
    envelope: Envelope, params: Json, tools: Sequence[Tool], service: Service
) -> CallToolResult:
    call = CallToolRequestParams.model_validate(params)
    by_name = {tool.name: tool for tool in tools}
    if call.name not in by_name:
        raise Refused(INVALID_PARAMS, "Unknown tool", {"tools": list(by_name)})
    outcome = call_tool(by_name[call.name], call.arguments or {}, service, envelope)
    content = TextContent(type="text", text=outcome.text)
    if outcome.failed:
        return CallToolResult(content=[content], is_error=True)
    # Twice: for clients with structured content, and for those with text only.
    structured = json.loads(outcome.text)
    links = _links(structured, outcome)
    return CallToolResult(content=[content, *links], structured_content=structured)


def _links(result: Json, outcome: Outcome) -> list[ResourceLink]:
    links: list[ResourceLink] = []
    spare = outcome.spare
    for citation in result.get("citations", ()):
        if not {"uuid", "marker", "source"} <= set(citation):
            continue
        uri = passage_uri(citation.get("namespace") or outcome.namespace, citation["uuid"])
        link = ResourceLink(uri=uri, name=citation["marker"], title=citation["source"])
        if spare is not None:
            spare -= len(dump(link.model_dump(by_alias=True, mode="json", exclude_none=True)))
            if spare < 0:
                break
        links.append(link)
    return links


@cache
def _listed(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=output_schema(tool.result),
        annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    )


def _check_headers(headers: Mapping[str, str], request: JSONRPCRequest, meta: Json | None) -> None:
    params = request.params or {}
    body = {"mcp-method": request.method}
    if meta is not None:
        body["mcp-protocol-version"] = meta[PROTOCOL_VERSION_META_KEY]
    if (key := NAMED_BY.get(request.method)) and key in params:
        body["mcp-name"] = params[key]
    for name, value in body.items():
        header = headers.get(name)
        if header is None and meta is None:
            continue
        if header is None or _header_text(header) != value:
            raise Refused(HEADER_MISMATCH, f"The header {name} does not match the body")
    version = headers.get("mcp-protocol-version")
    if meta is None and version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
        message = "The header mcp-protocol-version does not match the body"
        raise Refused(HEADER_MISMATCH, message)


def _header_text(value: str) -> str:
    if value.startswith("=?base64?") and value.endswith("?="):
        with suppress(ValueError):
            return base64.b64decode(value[9:-2], validate=True).decode()
    return value


def _check_version(meta: Json) -> None:
    version = meta[PROTOCOL_VERSION_META_KEY]
    if not isinstance(version, str) or CLIENT_CAPABILITIES_META_KEY not in meta:
        keys = f"{PROTOCOL_VERSION_META_KEY!r} and {CLIENT_CAPABILITIES_META_KEY!r}"
        raise Refused(INVALID_PARAMS, f"params._meta needs {keys}")
    if version not in MODERN_PROTOCOL_VERSIONS:
        data = {"supported": list(KNOWN_PROTOCOL_VERSIONS), "requested": version}
        raise Refused(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def _shaped(result: Result, modern: bool) -> Json:
    dumped: Json = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    if not modern:
        return {key: value for key, value in dumped.items() if key not in LATER_FIELDS}
    info = SERVER.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {**dumped, "_meta": {SERVER_INFO_META_KEY: info}}


def _error(refused: Refused, message_id: int | str | None, status: int) -> Reply:
    error: Json = {"code": refused.code, "message": refused.message}
    if refused.data is not None:
        error["data"] = refused.data
    return _reply({"jsonrpc": "2.0", "id": message_id, "error": error}, status)


def _reply(message: Json, status: int = 200) -> Reply:
    return Reply(statusCode=status, body=dump(message), headers=JSON_TYPE)
