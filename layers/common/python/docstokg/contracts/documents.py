"""Contracts of the document routes."""

import base64
import binascii
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from docstokg.contracts.envelope import Caller
from docstokg.contracts.model import Contract, Many, StrictContract
from docstokg.contracts.request import ANY_NAMESPACE, Name, Namespace

MAX_DOCUMENTS = 100
MAX_ID_BYTES = 512
# Maximum number of queued jobs per namespace.
MAX_QUEUED = 10

# File suffix of each media type; the suffix selects the reader.
MEDIA_TYPES = {
    "text/markdown": ".md",
    "text/plain": ".txt",
    "text/html": ".html",
    "text/x-rst": ".rst",
    "text/csv": ".csv",
    "application/json": ".json",
    "application/pdf": ".pdf",
    "application/x-ipynb+json": ".ipynb",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.presentation": ".odp",
    "application/rtf": ".rtf",
    "application/epub+zip": ".epub",
    "application/xml": ".txt",
    "message/rfc822": ".eml",
    "text/tab-separated-values": ".csv",
}

JobState = Literal["queued", "running", "done", "needs_agreement", "failed"]
JobKind = Literal["load", "delete"]


def id_problem(doc_id: str) -> str:
    """Return the error in a document id, or ""."""
    if not doc_id:
        return "must not be empty"
    if len(doc_id.encode("utf-8", "replace")) > MAX_ID_BYTES:
        return f"must be at most {MAX_ID_BYTES} bytes"
    if any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in doc_id):
        return "must not contain control characters"
    if any("\ud800" <= c <= "\udfff" for c in doc_id):
        return "must not contain lone surrogates"
    return "must not contain `..`" if ".." in doc_id else ""


def _checked_id(doc_id: str) -> str:
    if problem := id_problem(doc_id):
        raise PydanticCustomError("doc_id", "{problem}", {"problem": problem})
    return doc_id


def _known_type(media_type: str) -> str:
    plain = media_type.partition(";")[0].strip().lower()
    if plain not in MEDIA_TYPES:
        raise PydanticCustomError(
            "media_type", "must be one of {known}", {"known": ", ".join(MEDIA_TYPES)}
        )
    return plain


def _is_base64(content: str) -> str:
    try:
        base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as broken:
        raise PydanticCustomError("base64", "must be base64") from broken
    return content


DocId = Annotated[str, Field(min_length=1, max_length=MAX_ID_BYTES), AfterValidator(_checked_id)]
Uuid = Annotated[str, Field(min_length=1, max_length=64)]


class PostedDocument(StrictContract):
    """A document to load: either `text`, or `content` in base64 with `media_type`.

    `text` is plain text, or Markdown or reStructuredText according to `media_type` or the suffix of
    `doc_id`. Fields of the request override those in the document.
    """

    doc_id: DocId
    """document id; at most 512 bytes, no control characters, no `..`"""
    text: str | None = None
    """text of the document; alternative to `content`"""
    content: Annotated[str, AfterValidator(_is_base64)] | None = None
    """file in base64; requires `media_type`"""
    media_type: Annotated[str, AfterValidator(_known_type)] | None = Field(
        None, description=f"one of: {'; '.join(MEDIA_TYPES)}"
    )
    title: str | None = Field(None, max_length=512)
    """title; overrides the one in the document"""
    metadata: dict[str, Any] = Field({}, max_length=100)
    """metadata for filters"""
    acl: Annotated[Many[Name], Field(max_length=100)] | None = None
    """groups that may read the document; empty: all users of the namespace"""

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        if (self.text is None) == (self.content is None):
            raise PydanticCustomError("content", "requires either `text` or `content`")
        if self.content is not None and self.media_type is None:
            raise PydanticCustomError("media_type", "`content` requires `media_type`")
        return self


def _require_documents(documents: tuple[PostedDocument, ...]) -> tuple[PostedDocument, ...]:
    if not documents:
        raise PydanticCustomError("too_short", "must contain at least one document")
    return documents


class DocumentsRequest(StrictContract):
    """Request body of `POST /v1/documents`."""

    namespace: Namespace = "default"
    """target namespace"""
    documents: Annotated[
        Many[PostedDocument],
        AfterValidator(_require_documents),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_DOCUMENTS}),
    ]
    """at most 100 documents with different ids"""
    replace: bool = False
    """true: replace loaded documents with the same ids; false: 409"""


class DocumentsQuery(StrictContract):
    """Query of `GET /v1/documents`."""

    namespace: Namespace | None = Field(None, description=f"namespace; {ANY_NAMESPACE}")
    cursor: str | None = Field(None, max_length=2048)
    """`cursor` of the previous page; null: first page"""


class NamespacesQuery(StrictContract):
    """Query of `GET /v1/namespaces`; it has no parameters."""


class DocumentName(StrictContract):
    """Id of a document."""

    namespace: Namespace = "default"
    doc_id: DocId


class PageName(StrictContract):
    """Number of a page of a document; `n` is 1-based."""

    namespace: Namespace | None = None
    doc_id: DocId
    n: str = Field(pattern="^[1-9][0-9]{0,4}$")


class JobName(StrictContract):
    """Id of a job."""

    id: str = Field(min_length=1, max_length=64)


class PassageRequest(StrictContract):
    """Request for a passage and its surrounding text."""

    namespace: Namespace | None = Field(None, description=f"namespace; {ANY_NAMESPACE}")
    uuid: Uuid
    """`uuid` of the citation"""
    char_start: int | None = Field(None, ge=0)
    """`char_start` of the citation, to highlight the snippet"""
    char_end: int | None = Field(None, ge=0)
    """`char_end` of the citation"""
    context: int = Field(1200, ge=0, le=8000)
    """characters returned before and after the passage"""


class JobAccepted(Contract):
    """A queued job; its state is at `GET /v1/jobs/{job_id}`."""

    job_id: str
    """id for `GET /v1/jobs/{job_id}`"""


class DocumentRejected(Contract):
    """A document that could not be loaded or removed."""

    doc_id: str
    """document id"""
    reason: str
    """reason, as a sentence"""


class Job(Contract):
    """State and results of a job."""

    job_id: str
    """job id"""
    namespace: str
    """namespace of the documents"""
    kind: JobKind
    """kind of job"""
    state: JobState
    """state of the job"""
    loaded: int = 0
    """number of documents loaded or unchanged"""
    removed: int = 0
    """number of documents removed"""
    rejected: tuple[DocumentRejected, ...] = ()
    """documents that could not be loaded or removed, with reasons"""
    notes: tuple[str, ...] = ()
    """notes on parts that were not read or read differently; each starts with the document id"""
    reason: str = ""
    """reason if the whole job failed, or command that agrees to remove many documents"""


CANCELLED = "cancelled; documents that were already loaded remain"


class JobOrder(Contract):
    """A job order: `documents` for a load, `doc_id` for a removal."""

    job_id: str
    kind: JobKind
    caller: Caller
    namespace: str
    documents: tuple[PostedDocument, ...] = ()
    doc_id: str = ""
    replace: bool = False

    def job(self, state: JobState, **fields: Any) -> Job:
        """Return the job in this state; `fields`: other fields of `Job`."""
        return Job(
            job_id=self.job_id, namespace=self.namespace, kind=self.kind, state=state, **fields
        )


class ListedDocument(Contract):
    """A document in a list."""

    doc_id: str
    """document id"""
    title: str
    """title, or empty"""
    chunks: int
    """number of passages"""
    run_id: str
    """id of the load that last changed the document"""
    loaded_at: str
    """time of that load, ISO 8601"""
    note: str = ""
    """parts that were not read or read differently, with kind and number"""


class DocumentPage(Contract):
    """A page of documents."""

    documents: tuple[ListedDocument, ...]
    """documents by id, at most 100"""
    cursor: str | None = None
    """cursor of the next page; null on the last page"""
    may_load: bool = False
    """whether the caller may load and remove documents of this namespace"""


class LastLoad(Contract):
    """The last load that ended."""

    run_id: str
    """id of the load"""
    at: str
    """time of the load, ISO 8601"""


class ListedNamespace(Contract):
    """A namespace in a list; counts include only readable documents."""

    namespace: str
    """name of the namespace"""
    documents: int
    """number of documents that the caller may read"""
    chunks: int
    """number of passages that the caller may read"""
    last_load: LastLoad | None
    """last load that ended, with or without changes; null: none has ended"""
    may_load: bool = False
    """whether the caller may load and remove documents"""
    unfinished: bool = False
    """whether a load outside of jobs is running or was interrupted; repeat an interrupted load"""
    jobs: int | None = 0
    """number of queued and running jobs; null: the queue cannot be read"""


class NamespaceList(Contract):
    """Namespaces that the caller may read, without those of which all documents are hidden."""

    namespaces: tuple[ListedNamespace, ...]
    """namespaces by name"""


class Passage(Contract):
    """A chunk of a document with the surrounding text.

    `before` and `after`: adjacent text of the document that the caller may read. `char_start` and
    `char_end`: code-point offsets in the document or the chunk, see `offset_base`. `lit`: range of
    `text` to highlight.
    """

    uuid: str
    chunk_id: str
    doc_id: str
    document_name: str | None
    title: str
    section: str | None
    page: int | str | None
    uri: str | None
    anchor: str | None
    before: str
    text: str
    after: str
    offset_base: Literal["document", "chunk"]
    char_start: int
    char_end: int
    lit: tuple[int, int] | None
    text_sha256: str
    run_id: str
