"""The routes of documents in the contract; see `openapi`."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode

from docstokg.contracts.documents import (
    MAX_DOCUMENTS,
    MAX_QUEUED,
    DocumentPage,
    DocumentsRequest,
    Job,
    JobAccepted,
    NamespaceList,
)
from docstokg.contracts.request import NAMESPACE_PATTERN

Json = dict[str, Any]

MODELS: dict[type[BaseModel], JsonSchemaMode] = {
    DocumentsRequest: "validation",
    JobAccepted: "serialization",
    Job: "serialization",
    DocumentPage: "serialization",
    NamespaceList: "serialization",
}
_OWN = {
    403: "The namespace is not granted to this caller, or not for loading; or, without keys, the "
    "server is not on a loopback address or a page of another site asked.",
    404: "There is no such document or job, or it is not the caller's to see.",
    409: "A document of this id is loaded already, and `replace` is not set.",
    413: f"Over 4 MiB, or more than {MAX_DOCUMENTS} documents: more goes by `docstokg load`.",
    429: f"{MAX_QUEUED} jobs of this namespace wait already; see Retry-After.",
    503: "What is loaded cannot be read or changed now; or `overloaded`, see Retry-After.",
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
        {
            "doc_id": "valves.html",
            "content": "PGgxPlZhbHZlczwvaDE+PHA+VmFsdmUgc2V2ZW4gY2xvc2VzIGF0IDEyIGJhci48L3A+",
            "media_type": "text/html",
        },
    ],
    "replace": False,
}


def document_operations(
    problem: Callable[[str], Json], common: dict[int, str]
) -> dict[str, Callable[[], Json]]:
    """Describe the routes by name; `problem` describes a problem, `common` those of every route."""
    texts = common | _OWN

    def answers(status: str, model: str, text: str, *others: int) -> Json:
        problems = {str(one): problem(texts[one]) for one in sorted((401, 500, *others))}
        return {status: _json(model, text), **problems}

    content = {"schema": {"$ref": "#/components/schemas/DocumentsRequest"}, "example": EXAMPLE}
    queued = "The job is queued; GET /v1/jobs/{job_id} follows it"
    doc_id = _path("doc_id", "percent-encoded as one segment, `/` as `%2F`")
    cursor = _query("cursor", "`cursor` of the page before")
    posted = (400, 403, 404, 409, 413, 415, 429, 503, 504)
    return {
        "load": lambda: {
            "requestBody": {"required": True, "content": {"application/json": content}},
            "responses": answers("202", "JobAccepted", queued, *posted),
        },
        "documents": lambda: {
            "parameters": [_namespace(), cursor],
            "responses": answers("200", "DocumentPage", "A page, by doc_id", 400, 403, 503, 504),
        },
        "delete": lambda: {
            "parameters": [doc_id, _namespace()],
            "responses": answers(
                "202", "JobAccepted", "The job is queued", 400, 403, 404, 429, 503, 504
            ),
        },
        "page": lambda: {
            "parameters": [doc_id, _path("n", "the page, from 1"), _namespace()],
            "responses": {
                **answers("200", "", "The page", 400, 403, 404, 503, 504),
                "200": {"description": "The page", "content": {"image/png": {"schema": {}}}},
            },
        },
        "job": lambda: {
            "parameters": [_path("id", "the `job_id`")],
            "responses": answers("200", "Job", "The job", 400, 404, 503, 504),
        },
        "cancel": lambda: {
            "parameters": [_path("id", "the `job_id`")],
            "responses": answers("200", "Job", "The job, ended", 400, 403, 404, 503, 504),
        },
        "namespaces": lambda: {
            "responses": answers("200", "NamespaceList", "By name", 503, 504),
        },
    }


def _namespace() -> Json:
    schema = {"type": "string", "pattern": NAMESPACE_PATTERN, "default": "default"}
    return {"name": "namespace", "in": "query", "schema": schema}


def _query(name: str, description: str) -> Json:
    schema = {"type": "string", "maxLength": 2048}
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _path(name: str, description: str) -> Json:
    schema = {"type": "string", "minLength": 1, "maxLength": 512}
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


def _json(model: str, text: str) -> Json:
    schema = {"$ref": f"#/components/schemas/{model}"}
    return {"description": text, "content": {"application/json": {"schema": schema}}}
