"""Jobs of posted documents."""

import base64
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from docstokg.contracts.documents import (
    MEDIA_TYPES,
    DocumentRejected,
    Job,
    JobOrder,
)
from docstokg.loading.context import LoadOptions, Stores
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import POSTED
from docstokg.loading.read.sources import Posted, SourceFile

# Suffixes of a doc_id that set the format of its `text`.
TEXT_SUFFIXES = {".md": ".md", ".markdown": ".md", ".rst": ".rst"}


def run_job(order: JobOrder, stores: Stores, again: bool = False) -> Job:
    """Load or remove the documents of a job; a repeated run has the same result.

    `again`: it was started before. Raises `Locked` during another load into the namespace; the job
    is not done then.
    """
    groups = order.caller.scope(order.namespace).groups
    files = [_source(order, number, groups) for number in range(len(order.documents))]
    rejects = RejectLog(examples=1 + len(files) * 100)
    options = LoadOptions(
        order.namespace,
        replace_docs=order.replace,
        run_id=order.job_id,
        remove=(order.doc_id,) if order.kind == "delete" else (),
        groups=groups,
        again=again,
        wait_s=0.0,
    )
    load(files, options, stores, rejects)
    refused: dict[str, str] = {}
    ids = {str(file.path): file.doc_id for file in files}
    for rejection in rejects.first:
        refused.setdefault(ids.get(rejection.file, rejection.file), rejection.reason)
    return order.job(
        "done",
        loaded=sum(file.doc_id not in refused for file in files),
        removed=sum(doc_id not in refused for doc_id in options.remove),
        rejected=tuple(DocumentRejected(doc_id=id_, reason=r) for id_, r in refused.items()),
        notes=tuple(rejects.notes),
    )


def _source(order: JobOrder, number: int, groups: tuple[str, ...] | None) -> SourceFile:
    document = order.documents[number]
    text = document.text
    raw = base64.b64decode(document.content or "") if text is None else text.encode("utf-8")
    statement = document.model_dump(exclude={"doc_id", "content"}) | {"text": text is not None}
    return posted_file(str(number), document.doc_id, raw, statement, groups)


def posted_file(
    name: str, doc_id: str, raw: bytes, statement: Mapping[str, Any], groups: tuple[str, ...] | None
) -> SourceFile:
    """Return a source file for posted content; `statement`: title, acl, metadata, media_type.

    `name`: of its path, without suffix. `statement["text"]`: whether it was posted as text. Raises
    KeyError for an unknown media type.
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
