"""The HTTP contract as OpenAPI 3.1, generated from the models that enforce it."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from docstokg import __version__
from docstokg.contracts.chat import ChatCompletion, ChatRequest, ErrorReply, ModelList
from docstokg.contracts.check import CheckRequest, CheckResponse
from docstokg.contracts.request import RAGRequest, SearchRequest
from docstokg.contracts.response import Health, Problem, RAGResponse
from docstokg.contracts.traverse import TraverseRequest, TraverseResponse
from docstokg_local.openapi_documents import MODELS, document_paths

_PROBLEMS = {
    400: "The request is invalid; `errors` lists everything that is wrong with it.",
    401: "No valid credentials.",
    403: "The namespace is not granted to this caller.",
    409: "The `cache_key` was used for another request.",
    413: "The body is over 64 KiB.",
    415: "The body is not application/json.",
    429: "Too many requests; see Retry-After.",
    500: "A crash; nothing about it is told but the request id.",
    503: "No passage could be read; or `overloaded`: the deadline cannot be met at the present "
    "queue, see Retry-After.",
    504: "The deadline passed before any passage could be read.",
}
_POSTS: dict[str, tuple[str, str, str, type[BaseModel], type[BaseModel]]] = {
    "/v1/answer": (
        "answer",
        "Answer a question with verifiable evidence",
        "The whole pipeline: hybrid retrieval, graph expansion, citations and, when asked, an "
        "answer in which every claim is one of them.",
        RAGRequest,
        RAGResponse,
    ),
    "/v1/search": (
        "search_documentation",
        "Find evidence without an answer",
        "The same pipeline without synthesis: `answer` is empty and `grounding` null.",
        SearchRequest,
        RAGResponse,
    ),
    "/v1/traverse": (
        "traverse_relationships",
        "Walk the graph from given nodes",
        "Frontier-gated: a node is expanded only when it is similar to the question, new, and not "
        "falling off; the server's caps always win; pages by an opaque cursor.",
        TraverseRequest,
        TraverseResponse,
    ),
    "/v1/check": (
        "check_grounding",
        "Check a draft against its sources and the graph",
        "A verdict per sentence without a model call, and ids, labels and relations against the "
        "ontology; without citations the sources of each sentence are looked for.",
        CheckRequest,
        CheckResponse,
    ),
}


_JSON_RPC: dict[str, Any] = {
    "JsonRpcRequest": {
        "title": "JsonRpcRequest",
        "description": "One message of the Model Context Protocol; without `id` a notification.",
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "id": {"type": ["string", "integer"]},
            "method": {"type": "string", "examples": ["tools/list", "tools/call"]},
            "params": {"type": "object"},
        },
    },
    "JsonRpcResponse": {
        "title": "JsonRpcResponse",
        "description": "The result of a request, or the error it met in the protocol itself.",
        "type": "object",
        "required": ["jsonrpc", "id"],
        "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "id": {"type": ["string", "integer", "null"]},
            "result": {"type": "object"},
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
            },
        },
    },
}


def document() -> dict[str, Any]:
    """Build the document of the routes this version serves."""
    models: dict[type[BaseModel], JsonSchemaMode] = {
        Problem: "serialization",
        Health: "serialization",
        ChatRequest: "validation",
        ChatCompletion: "serialization",
        ModelList: "serialization",
        ErrorReply: "serialization",
    }
    for _, _, _, request_type, response_type in _POSTS.values():
        models[request_type] = "validation"
        models[response_type] = "serialization"
    models |= MODELS
    _, schemas = models_json_schema(
        [(model, mode) for model, mode in models.items()],
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, Any] = {
        path: {"post": _post(*described)} for path, described in _POSTS.items()
    }
    paths |= document_paths(_problem, _PROBLEMS)
    paths["/v1/chat/completions"] = {"post": _chat()}
    paths["/v1/models"] = {"get": _models()}
    paths["/mcp"] = {"post": _mcp()}
    paths["/v1/health"] = {
        "get": {
            "operationId": "health",
            "summary": "Tell how the service and what it depends on are doing",
            "security": [],
            "responses": {
                "200": _json("Health", "ok or degraded"),
                "503": _json("Health", "down"),
            },
        }
    }
    paths["/openapi.json"] = {
        "get": {
            "operationId": "openapi",
            "summary": "This document",
            "security": [],
            "responses": {
                "200": {
                    "description": "OpenAPI 3.1",
                    "content": {"application/json": {"schema": {"type": "object"}}},
                }
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "DocsToKG RAG",
            "version": __version__,
            "description": "Evidence-first retrieval: every claim is a source span.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"bearer": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"] | _JSON_RPC,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _post(
    operation: str,
    summary: str,
    description: str,
    request_type: type[BaseModel],
    response_type: type[BaseModel],
) -> dict[str, Any]:
    responses: dict[str, Any] = {
        "200": _json(response_type.__name__, "Also when degraded; see diagnostics")
    }
    responses |= {str(status): _problem(text) for status, text in _PROBLEMS.items()}
    return {
        "operationId": operation,
        "summary": summary,
        "description": description,
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": f"#/components/schemas/{request_type.__name__}"}
                }
            },
        },
        "responses": responses,
    }


def _chat() -> dict[str, Any]:
    """Describe the route for clients of OpenAI's format, whose errors are of that format too."""
    statuses = (400, 401, 403, 413, 415, 429, 500, 503, 504)
    answered = _json("ChatCompletion", "The answer; also when degraded, see `docstokg`")
    events = "One event with the whole, checked answer, then `data: [DONE]`"
    answered["content"]["text/event-stream"] = {"schema": {"type": "string", "description": events}}
    return {
        "operationId": "chat_completions",
        "summary": "Ask in OpenAI's chat format",
        "description": "The question is the last message of `user`; earlier ones are not used, "
        "and a warning says so. Messages of `system` say how to write. `MODEL@NAMESPACE` asks "
        "another namespace. Citations are annotations of the message; `docstokg` holds them whole.",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/ChatRequest"}}
            },
        },
        "responses": {
            "200": answered,
            **{str(status): _json("ErrorReply", _PROBLEMS[status]) for status in statuses},
        },
    }


def _models() -> dict[str, Any]:
    statuses = (401, 429, 500, 503, 504)
    return {
        "operationId": "models",
        "summary": "List what `model` may be in OpenAI's chat format",
        "description": "Every model the server allows, and each `MODEL@NAMESPACE` of the "
        "namespaces granted by name.",
        "responses": {
            "200": _json("ModelList", "The models"),
            **{str(status): _json("ErrorReply", _PROBLEMS[status]) for status in statuses},
        },
    }


def _mcp() -> dict[str, Any]:
    """Describe the one route whose errors are JSON-RPC's, because its clients expect them there."""
    own = {
        "200": "A result, or an error of the protocol; a tool's problem is a result with isError",
        "400": "No request of the protocol, or one it refuses",
        "404": "No such method",
    }
    problems = {status: _PROBLEMS[status] for status in (401, 413, 415, 500, 504)}
    problems[403] = "A page of another site asked, without a key."
    return {
        "operationId": "mcp",
        "summary": "The tools of the Model Context Protocol (streamable HTTP, stateless)",
        "description": "One JSON-RPC message in, one out; `tools/list` gives the tools and their "
        "schemas. See docs/mcp.md.",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/JsonRpcRequest"}}
            },
        },
        "responses": {
            **{status: _json("JsonRpcResponse", text) for status, text in own.items()},
            "202": {"description": "A notification was accepted"},
            **{str(status): _problem(text) for status, text in sorted(problems.items())},
        },
    }


def _problem(text: str) -> dict[str, Any]:
    return {
        "description": text,
        "content": {
            "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
        },
    }


def _json(model: str, text: str) -> dict[str, Any]:
    return {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}},
    }
