"""The routes of documents in the contract; see `openapi`."""

from collections.abc import Callable, Iterable
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


def document_paths(problem: Callable[[str], Json], common: dict[int, str]) -> Json:
    """Describe the routes; `problem` describes a problem, `common` those of every route."""
    texts = common | _OWN

    def problems(statuses: Iterable[int]) -> Json:
        return {str(status): problem(texts[status]) for status in sorted((401, 500, *statuses))}

    load = {
        "operationId": "load_documents",
        "summary": "Load documents, as a job",
        "description": "Texts, or files of other formats in base64, become cited passages. The "
        "job says which were loaded and which rejected, and why; send them again with `replace` "
        "to change them. A folder, or more than this route takes, goes by `docstokg load`.",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/DocumentsRequest"},
                    "example": EXAMPLE,
                }
            },
        },
        "responses": {
            "202": _json("JobAccepted", "The job is queued; GET /v1/jobs/{job_id} follows it"),
            **problems((400, 403, 404, 409, 413, 415, 429, 503, 504)),
        },
    }
    listed = {
        "operationId": "list_documents",
        "summary": "List the documents of a namespace that the caller may read",
        "parameters": [_namespace(), _query("cursor", "`cursor` of the page before")],
        "responses": {
            "200": _json("DocumentPage", "A page, by doc_id"),
            **problems((400, 403, 503, 504)),
        },
    }
    removed = {
        "operationId": "delete_document",
        "summary": "Remove a document, as a job",
        "parameters": [
            _path("doc_id", "percent-encoded as one segment, `/` as `%2F`"),
            _namespace(),
        ],
        "responses": {
            "202": _json("JobAccepted", "The job is queued"),
            **problems((400, 403, 404, 429, 503, 504)),
        },
    }
    job = {
        "operationId": "job",
        "summary": "Tell how a job goes",
        "description": "Those who may load into its namespace see it, for a week after its end.",
        "parameters": [_path("id", "the `job_id`")],
        "responses": {"200": _json("Job", "The job"), **problems((400, 404, 503, 504))},
    }
    spaces = {
        "operationId": "list_namespaces",
        "summary": "List the namespaces that hold something the caller may read",
        "responses": {"200": _json("NamespaceList", "By name"), **problems((503, 504))},
    }
    return {
        "/v1/documents": {"get": listed, "post": load},
        "/v1/documents/{doc_id}": {"delete": removed},
        "/v1/jobs/{id}": {"get": job},
        "/v1/namespaces": {"get": spaces},
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
