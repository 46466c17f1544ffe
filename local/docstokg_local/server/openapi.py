"""The HTTP contract as OpenAPI 3.1, generated from the models that enforce it."""

import ast
import json
from collections import defaultdict
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from docstokg import __version__, contracts
from docstokg.contracts.chat import ChatCompletion, ChatRequest, ErrorReply, ModelList
from docstokg.contracts.response import Health, Problem
from docstokg.contracts.routes import ROUTES, Route
from docstokg_local.server.openapi_documents import (
    MODELS,
    Json,
    body_of,
    document_operations,
    problem,
    reply_of,
)

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
_JSON_RPC: dict[str, Any] = {
    "JsonRpcRequest": {
        "title": "JsonRpcRequest",
        "description": "One message of the Model Context Protocol; without `id` a notification.",
        "type": "object",
        "required": ["jsonrpc", "method"],
        "properties": {
            "jsonrpc": {"const": "2.0", "description": "the version of JSON-RPC"},
            "id": {"type": ["string", "integer"], "description": "what the reply repeats"},
            "method": {
                "type": "string",
                "description": "what is wanted",
                "examples": ["tools/list", "tools/call"],
            },
            "params": {"type": "object", "description": "as the method wants them"},
        },
    },
    "JsonRpcResponse": {
        "title": "JsonRpcResponse",
        "description": "The result of a request, or the error it met in the protocol itself.",
        "type": "object",
        "required": ["jsonrpc", "id"],
        "oneOf": [{"required": ["result"]}, {"required": ["error"]}],
        "properties": {
            "jsonrpc": {"const": "2.0", "description": "the version of JSON-RPC"},
            "id": {"type": ["string", "integer", "null"], "description": "that of the request"},
            "result": {"type": "object", "description": "what the method gives"},
            "error": {
                "type": "object",
                "description": "why there is no result",
                "required": ["code", "message"],
                "properties": {
                    "code": {"type": "integer", "description": "JSON-RPC's number"},
                    "message": {"type": "string", "description": "what is wrong, in a sentence"},
                },
            },
        },
    },
}


def document() -> dict[str, Any]:
    """Build the document of the routes this version serves."""
    replies = (Problem, Health, ChatCompletion, ModelList, ErrorReply)
    models: dict[type[BaseModel], JsonSchemaMode] = dict.fromkeys(replies, "serialization")
    models[ChatRequest] = "validation"
    for route in ROUTES:
        if route.request:
            models |= {_model(route.request): "validation", _model(route.reply): "serialization"}
    models |= MODELS
    _, schemas = models_json_schema(
        [(model, mode) for model, mode in models.items()],
        ref_template="#/components/schemas/{model}",
    )
    _describe_fields(schemas["$defs"])
    own = {"chat": _chat(), "models": _models(), "mcp": _mcp(), "health": _health()}
    own |= document_operations(_PROBLEMS)
    paths: dict[str, Any] = defaultdict(dict)
    for route in ROUTES:
        more = {"description": route.description} if route.description else {}
        paths[route.path][route.method.lower()] = {
            "operationId": route.operation,
            "summary": route.summary,
            **more,
            **(own.get(route.name) or _post(route)),
        }
    described = {"schema": {"type": "object"}}
    own_reply = {"description": "OpenAPI 3.1", "content": {"application/json": described}}
    paths["/openapi.json"]["get"] = {
        "operationId": "openapi",
        "summary": "This document",
        "security": [],
        "responses": {"200": own_reply},
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


def _describe_fields(schemas: Json) -> None:
    """Put the docstring below each field beside it; read here, so that no function pays for it."""
    for path in Path(contracts.__path__[0]).glob("*.py"):
        for model in ast.parse(path.read_text("utf-8")).body:
            if not isinstance(model, ast.ClassDef) or model.name not in schemas:
                continue
            for pair in pairwise(model.body):
                match pair:
                    case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                        field = schemas[model.name]["properties"][name.rstrip("_")]
                        field["description"] = said


def _model(name: str) -> type[BaseModel]:
    module, _, model = name.partition(".")
    kind: type[BaseModel] = getattr(import_module(f"docstokg.contracts.{module}"), model)
    return kind


def _post(route: Route) -> dict[str, Any]:
    responses = {
        "200": reply_of(route.reply.partition(".")[2], "Also when degraded; see diagnostics")
    }
    problems = {**_PROBLEMS, 404: "No such document or passage here, or it may not be seen."}
    for status in (409,) if route.name == "explain" else (404,):
        del problems[status]
    responses |= {str(status): problem(problems[status]) for status in sorted(problems)}
    return {"requestBody": body_of(route.request.partition(".")[2]), "responses": responses}


def _chat() -> dict[str, Any]:
    """Describe the route for clients of OpenAI's format, whose errors are of that format too."""
    answered = reply_of("ChatCompletion", "The answer; also when degraded, see `docstokg`")
    events = "One event with the whole, checked answer, then `data: [DONE]`"
    answered["content"]["text/event-stream"] = {"schema": {"type": "string", "description": events}}
    errors = _chat_errors(400, 401, 403, 413, 415, 429, 500, 503, 504)
    return {"requestBody": body_of("ChatRequest"), "responses": {"200": answered, **errors}}


def _models() -> dict[str, Any]:
    listed = reply_of("ModelList", "The models")
    return {"responses": {"200": listed, **_chat_errors(401, 429, 500, 503, 504)}}


def _chat_errors(*statuses: int) -> dict[str, Any]:
    return {str(status): reply_of("ErrorReply", _PROBLEMS[status]) for status in statuses}


def _health() -> dict[str, Any]:
    responses = {
        "200": reply_of("Health", "ok or degraded"),
        "503": reply_of("Health", "down"),
    }
    return {"security": [], "responses": responses}


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
        "requestBody": body_of("JsonRpcRequest"),
        "responses": {
            **{status: reply_of("JsonRpcResponse", text) for status, text in own.items()},
            "202": {"description": "A notification was accepted"},
            **{str(status): problem(text) for status, text in sorted(problems.items())},
        },
    }


def document_text() -> str:
    """Give the OpenAPI document as a file holds it."""
    return json.dumps(document(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
