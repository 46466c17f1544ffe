"""Model Context Protocol without sessions, one message at a time.

Requests with a version in `params._meta` (2026-07-28 on) need no handshake; others belong to the
generation of `initialize`.
"""

import json
from collections.abc import Sequence
from typing import Any

from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
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
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.tools import output_schema
from docstokg.usecases.intake import decode_body
from docstokg_functions.mcp.paging import dump
from docstokg_functions.mcp.tools import Service, Tool, call_tool

SERVER = Implementation(name="docstokg", title="DocsToKG RAG", version=__version__)
CAPABILITIES = ServerCapabilities(tools=ToolsCapability(list_changed=False))
INSTRUCTIONS = (
    "Evidence from a corpus and its knowledge graph. Search or answer first, cite by marker, read "
    "a passage in its context where a snippet is not enough, and check a draft before you rely on "
    "it. Results have at most max_response_tokens (2000); next_cursor leads on."
)
LIST_FRESH_MS = 300_000
# Fields of the later generation, which strict clients of the earlier one refuse.
LATER_FIELDS = ("resultType", "ttlMs", "cacheScope")
JSON_TYPE = {"Content-Type": "application/json"}


class Refused(Exception):
    """A message that is answered with a JSON-RPC error."""

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
        if isinstance(meta, dict) and modern:
            _check_version(meta)
        if request.method == "tools/call":
            result: Result = _called(envelope, request.params, tools, service)
        else:
            result = _result(request.method, request.params or {}, tools, modern)
    except Refused as exc:
        status = 404 if exc.code == METHOD_NOT_FOUND else 400
        return _error(exc, request.id, status if modern else 200)
    except ValidationError as exc:
        wrong = [".".join(map(str, error["loc"])) for error in exc.errors()]
        refused = Refused(INVALID_PARAMS, "Invalid params", wrong)
        return _error(refused, request.id, 400 if modern else 200)
    return _reply({"jsonrpc": "2.0", "id": request.id, "result": _shaped(result, modern)})


def _result(method: str, params: dict[str, Any], tools: Sequence[Tool], modern: bool) -> Result:
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


def _called(
    envelope: Envelope, given: dict[str, Any] | None, tools: Sequence[Tool], service: Service
) -> CallToolResult:
    params = CallToolRequestParams.model_validate(given or {})
    by_name = {tool.name: tool for tool in tools}
    if params.name not in by_name:
        raise Refused(INVALID_PARAMS, "Unknown tool", {"tools": list(by_name)})
    arguments = params.arguments or {}
    caller, request_id = envelope.caller, envelope.request_id
    outcome = call_tool(by_name[params.name], arguments, service, caller, request_id)
    content = TextContent(type="text", text=outcome.text)
    if outcome.failed:
        return CallToolResult(content=[content], is_error=True)
    # Twice: for clients with structured content, and for those with text only.
    return CallToolResult(content=[content], structured_content=json.loads(outcome.text))


def _listed(tool: Tool) -> ListedTool:
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=output_schema(tool.result),
        annotations=ToolAnnotations(
            title=tool.title, read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )


def _check_version(meta: dict[str, Any]) -> None:
    version = meta[PROTOCOL_VERSION_META_KEY]
    if not isinstance(version, str) or CLIENT_CAPABILITIES_META_KEY not in meta:
        keys = f"{PROTOCOL_VERSION_META_KEY!r} and {CLIENT_CAPABILITIES_META_KEY!r}"
        raise Refused(INVALID_PARAMS, f"params._meta needs {keys}")
    if version not in MODERN_PROTOCOL_VERSIONS:
        data = {"supported": list(KNOWN_PROTOCOL_VERSIONS), "requested": version}
        raise Refused(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)


def _shaped(result: Result, modern: bool) -> dict[str, Any]:
    dumped: dict[str, Any] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    if not modern:
        return {key: value for key, value in dumped.items() if key not in LATER_FIELDS}
    info = SERVER.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {**dumped, "_meta": {SERVER_INFO_META_KEY: info}}


def _error(refused: Refused, message_id: int | str | None, status: int) -> Reply:
    error: dict[str, Any] = {"code": refused.code, "message": refused.message}
    if refused.data is not None:
        error["data"] = refused.data
    return _reply({"jsonrpc": "2.0", "id": message_id, "error": error}, status)


def _reply(message: dict[str, Any], status: int = 200) -> Reply:
    return Reply(statusCode=status, body=dump(message), headers=JSON_TYPE)
