"""A job of documents that were sent: loaded or removed as a folder's would be."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from docstokg.contracts.documents import (
    MEDIA_TYPES,
    DocumentRejected,
    Job,
    JobOrder,
    PostedDocument,
)
from docstokg.domain.visibility import may_see
from docstokg.loading.context import LoadOptions, Stores
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import POSTED
from docstokg.loading.read.sources import Posted, SourceFile
from docstokg.loading.write.deletion import delete_document

TEXT_SUFFIXES = {".md": ".md", ".markdown": ".md", ".rst": ".rst"}
"""Endings of a doc_id that say how its `text` is written; any other is plain text."""


def run_job(order: JobOrder, stores: Stores, again: bool = False) -> Job:
    """Do what a job asks for and say how it went; doing it again ends in the same content.

    `again`: it was begun before. Errors of the stores are raised: the job is not done then.
    """
    if order.kind == "delete":
        return _remove(order, stores, again)
    files = [_source(order, number, one) for number, one in enumerate(order.documents)]
    rejects = RejectLog(examples=len(files) * 100)
    options = LoadOptions(order.namespace, replace_docs=order.replace, run_id=order.job_id)
    load(files, options, stores, rejects)
    refused: dict[str, str] = {}
    ids = {str(file.path): file.doc_id for file in files}
    for rejection in rejects.first:
        refused.setdefault(ids[rejection.file], rejection.reason)
    done = _done(order, [doc.doc_id for doc in order.documents], refused)
    return done.model_copy(update={"notes": tuple(rejects.notes)})


def _done(order: JobOrder, doc_ids: Sequence[str], refused: dict[str, str]) -> Job:
    rejected = tuple(
        DocumentRejected(doc_id=doc_id, reason=refused[doc_id])
        for doc_id in doc_ids
        if doc_id in refused
    )
    return order.job("done", loaded=len(doc_ids) - len(refused), rejected=rejected)


def _source(order: JobOrder, number: int, document: PostedDocument) -> SourceFile:
    text = document.text
    raw = base64.b64decode(document.content or "") if text is None else text.encode("utf-8")
    statement = document.model_dump(exclude={"doc_id", "content"}) | {"text": text is not None}
    groups = order.caller.scope(order.namespace).groups
    return posted_file(str(number), document.doc_id, raw, statement, groups)


def posted_file(
    name: str, doc_id: str, raw: bytes, statement: Mapping[str, Any], groups: tuple[str, ...] | None
) -> SourceFile:
    """Make a file of what was sent with its title, acl, metadata and media_type in `statement`.

    `name`: of the path that stands for it, before the suffix of its format. `statement["text"]`
    tells whether it was sent as text.
    """
    suffix = ".txt"
    if statement.get("text"):
        suffix = TEXT_SUFFIXES.get(PurePosixPath(doc_id).suffix.lower(), ".txt")
    if statement.get("media_type") is not None:
        suffix = MEDIA_TYPES[statement["media_type"]]
    fields: dict[str, object] = {"document_name": doc_id.rpartition("/")[2] or doc_id}
    if statement.get("title") is not None:
        fields["title"] = statement["title"]
    if statement.get("acl") is not None:
        fields["acl"] = tuple(dict.fromkeys(statement["acl"]))
    posted = Posted(raw, fields, dict(statement.get("metadata") or {}), groups)
    return SourceFile(Path(f"{name}{suffix}"), "document", doc_id, POSTED, doc_id, posted)


def _remove(order: JobOrder, stores: Stores, again: bool) -> Job:
    groups = order.caller.scope(order.namespace).groups
    there = stores.register.find(order.namespace, [order.doc_id])
    gone = again and not there
    if not gone and not any(may_see(record.acl, groups) for record in there):
        refused = {order.doc_id: "there is no document of this id that the sender may read"}
        return _done(order, [order.doc_id], refused)
    delete_document(stores, order.namespace, order.doc_id)
    return _done(order, [], {}).model_copy(update={"removed": 1})
