"""What is loaded, as far as a caller may read it."""

import hashlib
import hmac
import json
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
TAG_BYTES = 12


def list_documents(envelope: Envelope, *, register: DocumentRegister, key: bytes) -> Reply:
    """Give a DocumentPage as a reply, or the problem: 400, 403.

    `key` seals cursors: one of another namespace, or a forged one, is a 400.
    """
    query = parse_body(envelope, DocumentsQuery)
    if isinstance(query, Reply):
        return query
    caller, namespace = envelope.caller, query.namespace
    try:
        after = "" if query.cursor is None else _position(query.cursor, namespace, key)
    except InvalidCursor as wrong:
        where = FieldProblem(path="$.cursor", code="invalid_cursor", message=str(wrong))
        return invalid([where], envelope.request_id)
    records = list(islice(_visible(register, caller, namespace, after), PAGE + 1))
    cursor = _cursor(records[PAGE - 1].doc_id, namespace, key) if len(records) > PAGE else None
    fields = set(ListedDocument.model_fields)
    documents = tuple(
        ListedDocument(**record.model_dump(include=fields)) for record in records[:PAGE]
    )
    may_load = caller.may_load(namespace)
    return json_reply(DocumentPage(documents=documents, cursor=cursor, may_load=may_load))


def list_namespaces(envelope: Envelope, *, register: DocumentRegister) -> Reply:
    """Give a NamespaceList as a reply: what holds something the caller may read."""
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


def _cursor(doc_id: str, namespace: str, key: bytes) -> str:
    packed = json.dumps(doc_id).encode()
    return base64url.encode(_tag(packed, namespace, key) + packed)


def _position(cursor: str, namespace: str, key: bytes) -> str:
    try:
        sealed = base64url.decode(cursor)
    except ValueError as broken:
        raise InvalidCursor("this is no cursor of this service") from broken
    tag, packed = sealed[:TAG_BYTES], sealed[TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(packed, namespace, key)):
        raise InvalidCursor("the cursor is not this service's, or belongs to another namespace")
    return str(json.loads(packed))


def _tag(packed: bytes, namespace: str, key: bytes) -> bytes:
    text = b"documents\0" + namespace.encode() + b"\0" + packed
    return hmac.new(key, text, hashlib.sha256).digest()[:TAG_BYTES]
