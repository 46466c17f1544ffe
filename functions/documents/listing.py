"""Lists of documents and namespaces."""

from collections.abc import Iterator
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
from docstokg.contracts.records import DocumentRecord
from docstokg.contracts.response import FieldProblem
from docstokg.domain import base64url
from docstokg.errors import InvalidCursor
from docstokg.ports import DocumentRegister
from docstokg.usecases.intake import invalid, parse_body
from docstokg.usecases.problems import json_reply

PAGE = 100
WRITTEN = ("utf-8", "surrogatepass")


def list_documents(envelope: Envelope, *, register: DocumentRegister, key: bytes) -> Reply:
    """Return a DocumentPage as a reply, or a problem: 400, 403.

    `key` signs cursors: a forged cursor, or one of another namespace, is a 400.
    """
    query = parse_body(envelope, DocumentsQuery)
    if isinstance(query, Reply):
        return query
    caller, namespace = envelope.caller, query.namespace
    asked = f"documents {namespace}".encode()
    try:
        after = ""
        if query.cursor is not None:
            after = base64url.unsealed(query.cursor, asked, key).decode(*WRITTEN)
    except InvalidCursor as wrong:
        where = FieldProblem(path="$.cursor", code="invalid_cursor", message=str(wrong))
        return invalid([where], envelope.request_id)
    records = list(islice(_visible(register, caller, namespace, after), PAGE + 1))
    cursor = None
    if len(records) > PAGE:
        cursor = base64url.sealed(records[PAGE - 1].doc_id.encode(*WRITTEN), asked, key)
    fields = set(ListedDocument.model_fields)
    documents = tuple(
        ListedDocument(**record.model_dump(include=fields)) for record in records[:PAGE]
    )
    may_load = caller.may_load(namespace)
    return json_reply(DocumentPage(documents=documents, cursor=cursor, may_load=may_load))


def list_namespaces(envelope: Envelope, *, register: DocumentRegister) -> Reply:
    """Return a NamespaceList as a reply: the caller's namespaces with documents."""
    caller = envelope.caller
    namespaces = []
    for name in filter(caller.may_read, register.namespaces()):
        documents = chunks = 0
        last = ("", "")
        for record in _visible(register, caller, name, ""):
            documents, chunks = documents + 1, chunks + record.chunks
            last = max(last, (record.loaded_at, record.run_id))
        if documents:
            load = LastLoad(run_id=last[1], at=last[0])
            held = {"documents": documents, "chunks": chunks, "may_load": caller.may_load(name)}
            namespaces.append(ListedNamespace(namespace=name, last_load=load, **held))
    return json_reply(NamespaceList(namespaces=tuple(namespaces)))


def _visible(
    register: DocumentRegister, caller: Caller, namespace: str, after: str
) -> Iterator[DocumentRecord]:
    while page := register.documents(namespace, after):
        yield from (record for record in page if caller.sees(record.acl))
        after = page[-1].doc_id
