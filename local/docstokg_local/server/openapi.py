"""The contract as OpenAPI 3.1."""

import json
from collections import defaultdict
from collections.abc import Collection
from importlib import import_module
from typing import NamedTuple

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from docstokg import __version__
from docstokg.contracts import Json, chat, documents
from docstokg.contracts.documents import MAX_DOCUMENTS, MAX_QUEUED
from docstokg.contracts.health import Health
from docstokg.contracts.model import DescribedSchema
from docstokg.contracts.request import NAMESPACE_PATTERN
from docstokg.contracts.response import Problem
from docstokg.contracts.routes import ROUTES, Route, RouteName
from docstokg.usecases.live import EVENTS

KEYS = "/.well-known/docstokg-keys.json"
_PROBLEMS = {
    400: "The request is invalid; `errors` lists all errors.",
    401: "No valid credentials.",
    403: "The caller may not read the namespace or load into it; or, without keys, the server is "
    "not on a loopback address or the request is from another site.",
    404: "The passage, document or job does not exist, or the caller may not read it.",
    409: "The `cache_key` was used for another request, or a document with this id exists and "
    "`replace` is not set.",
    413: "The body is over 64 KiB (512 KiB for a check, 4 MiB for documents), or contains over "
    f"{MAX_DOCUMENTS} documents; use `docstokg load` for more.",
    415: "The body is not application/json.",
    429: f"Too many requests, or {MAX_QUEUED} jobs of this namespace are queued; see Retry-After.",
    500: "Internal error; the response contains only the request id.",
    503: "The stores are unavailable; or `overloaded`: the queue is too long to meet the deadline, "
    "see Retry-After.",
    504: "The deadline passed before any passage could be read.",
}
# Errors of this route use JSON-RPC, which its clients expect.
_MCP_REPLIES = {
    200: "A result or a protocol error; the problem of a tool is a result with isError",
    400: "The request is not valid in the protocol",
    404: "Unknown method",
}


EXAMPLE: Json = {
    "namespace": "plant",
    "documents": [
        {
            "doc_id": "pumps/care.md",
            "text": "# Care of pumps\n\nOil the pump every 40 days.\n",
            "metadata": {"site": "north"},
            "acl": ["staff"],
        },
    ],
}


class Described(NamedTuple):
    """Reply, problems and body of a route without models in ROUTES."""

    text: str
    problems: Collection[int]
    model: str = ""
    body: str = ""
    status: int = 200


_BUSY = (429, 503, 504)
_FOUND = (400, 403, 404, 503, 504)
_CONVERSATION = ("The answer; also when degraded, see `docstokg`", (400, 403, 413, 415, *_BUSY))
_QUEUED = "The job is queued; its state is at GET /v1/jobs/{job_id}"
_DESCRIBED: dict[RouteName, Described] = {
    "chat": Described(*_CONVERSATION, "ChatCompletion", "ChatRequest"),
    "responses": Described(*_CONVERSATION, "ModelResponse", "ResponsesRequest"),
    "models": Described("The models", _BUSY, "ModelList"),
    "model": Described("The model", (404, *_BUSY), "ListedModel"),
    "mcp": Described(_MCP_REPLIES[200], (403, 413, 415, 504)),
    "health": Described("ok or degraded", (), "Health"),
    "load": Described(
        _QUEUED, (*_FOUND, 409, 413, 415, 429), "JobAccepted", "DocumentsRequest", 202
    ),
    "documents": Described("A page, by doc_id", (400, 403, 503, 504), "DocumentPage"),
    "delete": Described("The job is queued", (*_FOUND, 429), "JobAccepted", status=202),
    "page": Described("The page", _FOUND),
    "job": Described("The job", (400, 404, 503, 504), "Job"),
    "cancel": Described("The job, ended", _FOUND, "Job"),
    "namespaces": Described("By name", (503, 504), "NamespaceList"),
}  # fmt: skip
_SEGMENT = {"type": "string", "minLength": 1, "maxLength": 512}
_NAMESPACE = {"type": "string", "pattern": NAMESPACE_PATTERN, "default": "default"}
_CURSOR = {"type": "string", "maxLength": 2048}
_PARAMETERS: dict[str, Json] = {
    name: {"in": "path", "required": True, "description": text, "schema": _SEGMENT}
    for name, text in (
        ("doc_id", "document id, percent-encoded as one segment, `/` as `%2F`"),
        ("id", "`job_id` of the job"),
        ("n", "page number, from 1"),
        ("model", "`id` of the model"),
    )
} | {
    "cursor": {"in": "query", "schema": _CURSOR, "description": "`cursor` of the previous page"},
    "namespace": {"in": "query", "schema": _NAMESPACE, "description": "namespace of the documents"},
}
_REPLIES = (
    Problem, Health, chat.ChatCompletion, chat.ModelResponse, chat.ModelList, chat.ListedModel,
    chat.ErrorReply, documents.JobAccepted,
    documents.Job, documents.DocumentPage, documents.NamespaceList,
)  # fmt: skip


def document() -> Json:
    """Return the document of the routes that this version serves."""
    models: dict[type[BaseModel], JsonSchemaMode] = dict.fromkeys(_REPLIES, "serialization")
    taken = (chat.ChatRequest, chat.ResponsesRequest, documents.DocumentsRequest)
    models |= dict.fromkeys(taken, "validation")
    for route in ROUTES:
        if route.request:
            models[_model(route.request)] = "validation"
        if route.reply:
            models[_model(route.reply)] = "serialization"
    _, schemas = models_json_schema(
        list(models.items()),
        ref_template="#/components/schemas/{model}",
        schema_generator=DescribedSchema,
    )
    paths: dict[str, Json] = defaultdict(dict)
    for route in ROUTES:
        description = {"description": route.description} if route.description else {}
        head = {"operationId": route.operation, "summary": route.summary, **description}
        paths[route.path][route.method.lower()] = head | _operation(route)
    for path, name, summary, reply in (
        ("/openapi.json", "openapi", "This document", "OpenAPI 3.1"),
        (KEYS, "receipt_keys", "Return the public keys of receipts", "A JSON Web Key Set"),
    ):
        operation: Json = {"operationId": name, "summary": summary, "security": []}
        paths[path]["get"] = operation | {"responses": {"200": _sent(reply)}}
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
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _model(name: str) -> type[BaseModel]:
    module, _, model = name.partition(".")
    kind: type[BaseModel] = getattr(import_module(f"docstokg.contracts.{module}"), model)
    return kind


def _operation(route: Route) -> Json:
    reply, body = (name.partition(".")[2] for name in (route.reply, route.request))
    every = _PROBLEMS.keys() - ({404} if route.name != "explain" else {409})
    row = _DESCRIBED.get(route.name) or (
        Described("Also when degraded; see diagnostics", every, reply, body)
        if body
        else Described("The reply", _BUSY, reply)
    )
    wrong: set[int] = set() if route.open else {401, 500, *row.problems}
    error = (
        ("ErrorReply", "json") if route.name in chat.CHAT_ROUTES else ("Problem", "problem+json")
    )
    responses = {str(status): _sent(_PROBLEMS[status], *error) for status in wrong}
    operation: Json = {"responses": {str(row.status): _sent(row.text, row.model)} | responses}
    if row.body:
        operation["requestBody"] = {"required": True, "content": _of(row.body)}
    if route.parameters:
        operation["parameters"] = [{"name": name, **_PARAMETERS[name]} for name in route.parameters]
    return _with_its_own(route.name, operation)


def _with_its_own(name: RouteName, operation: Json) -> Json:
    responses = operation["responses"]
    match name:
        case "chat" | "responses":
            events = "Events of OpenAI's format; the text comes in checked sentences"
            streamed = {"schema": {"type": "string", "description": events}}
            responses["200"]["content"][EVENTS] = streamed
        case "stream":
            responses["200"]["content"] = {EVENTS: {"schema": {"type": "object"}}}
        case "health":
            responses["503"] = _sent("down", "Health")
            operation["security"] = []
        case "mcp":
            operation["requestBody"] = {"required": True, "content": _of()}
            responses |= {str(status): _sent(text) for status, text in _MCP_REPLIES.items()}
            responses["202"] = {"description": "A notification was accepted"}
        case "page":
            responses["200"]["content"] = {"image/png": {"schema": {}}}
        case "load":
            operation["requestBody"]["content"]["application/json"]["example"] = EXAMPLE
    return operation


def _sent(text: str, model: str = "", kind: str = "json") -> Json:
    return {"description": text, "content": _of(model, kind)}


def _of(model: str = "", kind: str = "json") -> Json:
    schema = {"$ref": f"#/components/schemas/{model}"} if model else {"type": "object"}
    return {f"application/{kind}": {"schema": schema}}


def document_text() -> str:
    """Return the OpenAPI document as file content."""
    return json.dumps(document(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
