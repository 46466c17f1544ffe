"""The routes of documents in the contract; see `openapi`."""

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


def document_operations(common: dict[int, str]) -> dict[str, Json]:
    """Describe the routes by name; `common`: the problems of every route."""
    doc_id = _path("doc_id", "percent-encoded as one segment, `/` as `%2F`")
    cursor = _in_query("cursor", {"type": "string", "maxLength": 2048})
    cursor["description"] = "`cursor` of the page before"
    namespace = _in_query(
        "namespace", {"type": "string", "pattern": NAMESPACE_PATTERN, "default": "default"}
    )
    namespace["description"] = "where it is"
    job, page = _path("id", "the `job_id`"), _path("n", "the page, from 1")
    queued = "The job is queued; GET /v1/jobs/{job_id} follows it"
    posted = (400, 403, 404, 409, 413, 415, 429, 503, 504)
    found = (400, 403, 404, 503, 504)
    table: dict[str, tuple[str, str, str, list[Json], tuple[int, ...]]] = {
        "load": ("202", "JobAccepted", queued, [], posted),
        "documents": (
            "200", "DocumentPage", "A page, by doc_id", [namespace, cursor], (400, 403, 503, 504)
        ),
        "delete": (
            "202", "JobAccepted", "The job is queued", [doc_id, namespace], (*found, 429)
        ),
        "page": ("200", "", "The page", [doc_id, page, namespace], found),
        "job": ("200", "Job", "The job", [job], (400, 404, 503, 504)),
        "cancel": ("200", "Job", "The job, ended", [job], found),
        "namespaces": ("200", "NamespaceList", "By name", [], (503, 504)),
    }  # fmt: skip
    texts, made = common | _OWN, dict[str, Json]()
    for name, (status, model, text, parameters, others) in table.items():
        problems = {str(one): problem(texts[one]) for one in sorted((401, 500, *others))}
        made[name] = {"responses": {status: reply_of(model, text), **problems}}
        if parameters:
            made[name]["parameters"] = parameters
    made["page"]["responses"]["200"]["content"] = {"image/png": {"schema": {}}}
    made["load"]["requestBody"] = body_of("DocumentsRequest")
    made["load"]["requestBody"]["content"]["application/json"]["example"] = EXAMPLE
    return made


def _in_query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "schema": schema}


def _path(name: str, description: str) -> Json:
    schema = {"type": "string", "minLength": 1, "maxLength": 512}
    told = {"required": True, "description": description, "schema": schema}
    return {"name": name, "in": "path", **told}


def body_of(model: str) -> Json:
    """Describe a request's body."""
    return {"required": True, "content": _of(model, "json")}


def reply_of(model: str, text: str) -> Json:
    """Describe a reply that holds a model."""
    return {"description": text, "content": _of(model, "json")}


def problem(text: str) -> Json:
    """Describe a refusal."""
    return {"description": text, "content": _of("Problem", "problem+json")}


def _of(model: str, kind: str) -> Json:
    return {f"application/{kind}": {"schema": {"$ref": f"#/components/schemas/{model}"}}}
