"""Lists of documents and namespaces."""

from collections.abc import Iterator, Mapping
from itertools import islice

from docstokg.contracts.documents import (
    DocumentPage,
    DocumentsQuery,
    LastLoad,
    ListedDocument,
    ListedNamespace,
    NamespaceList,
)
from docstokg.contracts.envelope import Caller, Envelope, Reply
from docstokg.contracts.records import IndexInfo
from docstokg.contracts.response import FieldProblem
from docstokg.domain import base64url, time_budget
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import key_of
from docstokg.errors import DocsToKGError, NotLoaded, cause
from docstokg.observability import Telemetry
from docstokg.ports import DocumentRegister, JobQueue, SearchIndex, every_document
from docstokg.usecases.intake import invalid, namespace_of, parse_body
from docstokg.usecases.problems import json_reply
from docstokg.usecases.run import Begin

PAGE = 100


def list_documents(
    envelope: Envelope, *, register: DocumentRegister, index: SearchIndex, begin: Begin
) -> Reply:
    """Return a DocumentPage of visible ones by id as a reply, or a problem: 400, 403."""
    query = parse_body(envelope, DocumentsQuery)
    if isinstance(query, Reply):
        return query
    caller, namespace = envelope.caller, namespace_of(envelope, query.namespace, index, begin)
    if isinstance(namespace, Reply):
        return namespace
    try:
        after = base64url.name_before(query.cursor or "")
    except ValueError:
        message = "must be the `cursor` of the previous page"
        problem = FieldProblem(path="$.cursor", code="invalid_cursor", message=message)
        return invalid([problem], envelope.request_id)
    stored = every_document(register, namespace, after)
    records = list(islice((record for record in stored if caller.sees(record.acl)), PAGE + 1))
    is_last = len(records) <= PAGE
    cursor = None if is_last else base64url.cursor_after(records[PAGE - 1].doc_id)
    fields = set(ListedDocument.model_fields)
    documents = tuple(
        ListedDocument(**record.model_dump(include=fields)) for record in records[:PAGE]
    )
    may_load = caller.may_load(namespace)
    return json_reply(DocumentPage(documents=documents, cursor=cursor, may_load=may_load))


def list_namespaces(
    envelope: Envelope,
    *,
    register: DocumentRegister,
    index: SearchIndex,
    queue: JobQueue,
    telemetry: Telemetry,
) -> Reply:
    """Return a NamespaceList as a reply, also before the first load; see `states`."""
    try:
        info = index.info(Deadline.after(time_budget.NAMESPACE_S))
    except NotLoaded:
        info = IndexInfo()
    listed = states(envelope.caller, register, info, queue, telemetry)
    return json_reply(NamespaceList(namespaces=tuple(listed)))


def states(
    caller: Caller,
    register: DocumentRegister,
    info: IndexInfo,
    queue: JobQueue,
    telemetry: Telemetry,
) -> Iterator[ListedNamespace]:
    """Yield the state of each namespace that the caller may read, by name.

    Without namespaces whose documents are all hidden. The number of jobs is None if the queue
    cannot be read.
    """
    jobs: Mapping[str, int] | None
    try:
        jobs = queue.unfinished()
    except DocsToKGError as error:
        telemetry.log("WARNING", "jobs_failed", **cause(error))
        jobs = None
    names = {*register.namespaces(), *info.namespaces, *info.unfinished, *(jobs or ())} - {""}
    for name in sorted(filter(caller.may_read, names)):
        documents = chunks = hidden = 0
        space, row = key_of(name)
        loads = [(load.loaded_at, load.run_id) for load in register.find(space, [row])]
        for record in every_document(register, name):
            if not caller.sees(record.acl):
                hidden += 1
                continue
            documents, chunks = documents + 1, chunks + record.chunks
            loads.append((record.loaded_at, record.run_id))
        if documents or not hidden:
            last = max(loads, default=("", ""))
            yield ListedNamespace(
                namespace=name,
                documents=documents,
                chunks=chunks,
                last_load=LastLoad(run_id=last[1], at=last[0]) if last[0] else None,
                may_load=caller.may_load(name),
                unfinished=bool(info.warnings_of([name])),
                jobs=None if jobs is None else jobs.get(name, 0),
            )
