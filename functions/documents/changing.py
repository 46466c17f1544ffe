"""Loads and removals of documents."""

import json
from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from docstokg.contracts.documents import (
    CANCELLED,
    MAX_DOCUMENTS,
    MAX_QUEUED,
    DocumentName,
    DocumentsRequest,
    Job,
    JobAccepted,
    JobName,
    JobOrder,
)
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.response import FieldProblem
from docstokg.contracts.routes import MAX_DOCUMENTS_BYTES
from docstokg.ports import DocumentRegister, JobQueue
from docstokg.usecases.intake import decode_body, invalid, not_granted, parse, parse_body
from docstokg.usecases.problems import json_reply, problem_reply

MORE = "more goes by `docstokg load`, or through the bucket of a deployment"
RETRY_S = 5


def load_documents(envelope: Envelope, *, register: DocumentRegister, queue: JobQueue) -> Reply:
    """Return 202 with the job's id, or a problem: 400, 403, 404, 409, 413, 429.

    404: an existing document is not visible to the caller. Requests are never executed in part.
    """
    request = _documents(envelope)
    if isinstance(request, Reply):
        return request
    namespace, caller = request.namespace, envelope.caller
    if refused := _no_right(envelope, namespace):
        return refused
    ids = [document.doc_id for document in request.documents]
    documents = register.find(namespace, ids)
    if hidden := [document.doc_id for document in documents if not caller.sees(document.acl)]:
        return _not_there(hidden[0], envelope.request_id)
    if documents and not request.replace:
        return _conflict(ids, {document.doc_id for document in documents}, envelope.request_id)
    order = {"documents": request.documents, "replace": request.replace}
    return _queued(envelope, namespace, queue, kind="load", **order)


def remove_document(envelope: Envelope, *, register: DocumentRegister, queue: JobQueue) -> Reply:
    """Return 202 with the job's id, or a problem: 400, 403, 404, 429."""
    name = parse_body(envelope, DocumentName)
    if isinstance(name, Reply):
        return name
    if refused := _no_right(envelope, name.namespace):
        return refused
    documents = register.find(name.namespace, [name.doc_id])
    if not any(envelope.caller.sees(document.acl) for document in documents):
        return _not_there(name.doc_id, envelope.request_id)
    return _queued(envelope, name.namespace, queue, kind="delete", doc_id=name.doc_id)


def job_of(envelope: Envelope, *, queue: JobQueue) -> Reply:
    """Return a Job as a reply, or 400; 404 also for callers who may not load into its namespace."""
    name = parse_body(envelope, JobName)
    if isinstance(name, Reply):
        return name
    job = queue.get(name.id)
    if job is None or not envelope.caller.may_load(job.namespace):
        detail = "There is no such job, or it is not yours to see."
        return problem_reply(404, "not_found", detail, envelope.request_id)
    return json_reply(job)


def cancel_job(envelope: Envelope, *, queue: JobQueue) -> Reply:
    """Cancel an unfinished job; return it as failed, an ended one as it is.

    Problems as `job_of`.
    """
    reply = job_of(envelope, queue=queue)
    if reply.statusCode != HTTPStatus.OK:
        return reply
    job = Job.model_validate_json(reply.body)
    if job.state not in ("queued", "running"):
        return reply
    queue.cancel(job.job_id)
    failed_job = job.model_copy(update={"state": "failed", "reason": CANCELLED})
    return reply.model_copy(update={"body": failed_job.model_dump_json()})


def _documents(envelope: Envelope) -> DocumentsRequest | Reply:
    request_id = envelope.request_id
    body = decode_body(envelope.body_b64, request_id, MAX_DOCUMENTS_BYTES)
    if isinstance(body, Reply):
        return body
    if _document_count(body) > MAX_DOCUMENTS:
        detail = f"One request takes {MAX_DOCUMENTS} documents: {MORE}."
        return problem_reply(413, "too_many_documents", detail, request_id)
    request, errors = parse(body, DocumentsRequest)
    if request is None:
        return invalid(errors, request_id)
    times = Counter(document.doc_id for document in request.documents)
    twice = [
        FieldProblem(path=f"$.documents[{at}].doc_id", code="repeated", message="stands here twice")
        for at, document in enumerate(request.documents)
        if times[document.doc_id] > 1
    ]
    return invalid(twice, request_id) if twice else request


def _document_count(body: bytes) -> int:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return 0
    documents = value.get("documents") if isinstance(value, dict) else None
    return len(documents) if isinstance(documents, list) else 0


def _no_right(envelope: Envelope, namespace: str) -> Reply | None:
    if refused := not_granted(envelope, namespace):
        return refused
    if not envelope.caller.may_load(namespace):
        detail = f"This caller may read namespace {namespace!r} and not load into it."
        return problem_reply(403, "load_not_granted", detail, envelope.request_id)
    return None


def _not_there(doc_id: str, request_id: str) -> Reply:
    detail = f"There is no document {doc_id!r}, or it is not yours to read."
    return problem_reply(404, "not_found", detail, request_id)


def _conflict(ids: Sequence[str], loaded_ids: set[str], request_id: str) -> Reply:
    errors = tuple(
        FieldProblem(path=f"$.documents[{at}].doc_id", code="exists", message="is loaded already")
        for at, doc_id in enumerate(ids)
        if doc_id in loaded_ids
    )
    plural = f"{len(errors)} of these documents are"
    subject = plural if len(errors) > 1 else "A document of this id is"
    detail = f"{subject} loaded already; `replace` puts the new text in the place of the old."
    return problem_reply(409, "document_exists", detail, request_id, errors)


def _queued(envelope: Envelope, namespace: str, queue: JobQueue, **fields: Any) -> Reply:
    identity = {"job_id": envelope.request_id, "caller": envelope.caller}
    order = JobOrder(**identity, namespace=namespace, **fields)
    if not queue.add(order):
        detail = f"{MAX_QUEUED} jobs of namespace {order.namespace!r} wait already."
        retry = {"Retry-After": str(RETRY_S)}
        return problem_reply(429, "too_many_jobs", detail, order.job_id, (), retry)
    return json_reply(JobAccepted(job_id=order.job_id), 202)
