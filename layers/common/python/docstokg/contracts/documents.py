"""Documents over HTTP: what is sent to be loaded, what a job says, what lists show."""

import base64
import binascii
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from docstokg.contracts.envelope import Caller
from docstokg.contracts.model import Contract, Many, StrictContract
from docstokg.contracts.request import Name, Namespace

MAX_DOCUMENTS = 100
MAX_ID_BYTES = 512
MAX_QUEUED = 10
"""Jobs of one namespace that may wait at once."""

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
    "application/xml": ".xml",
    "message/rfc822": ".eml",
    "text/tab-separated-values": ".csv",
}
"""Media type -> the suffix its reader goes by."""

JobState = Literal["queued", "running", "done", "failed"]
JobKind = Literal["load", "delete"]


def id_problem(doc_id: str) -> str:
    """Say what is wrong with a document's id, or ""."""
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
    """One document: its `text`, or `content` in base64 with the media type of its format.

    `text` is plain text or, where `media_type` or the ending of `doc_id` says so, Markdown or
    reStructuredText. What is given here wins over what the document says of itself.
    """

    doc_id: DocId = Field(description="at most 512 bytes, no control characters, no `..`")
    text: str | None = Field(None, description="the document; or `content`")
    content: Annotated[str, AfterValidator(_is_base64)] | None = Field(
        None, description="base64 of a file; needs `media_type`"
    )
    media_type: Annotated[str, AfterValidator(_known_type)] | None = Field(
        None, description="; ".join(MEDIA_TYPES)
    )
    title: str | None = Field(None, max_length=512)
    """its title; wins over the one it gives itself"""
    metadata: dict[str, Any] = Field({}, max_length=100, description="filters can ask for it")
    acl: Annotated[Many[Name], Field(max_length=100)] | None = Field(
        None, description="groups that may read it; empty: everybody of the namespace"
    )

    @model_validator(mode="after")
    def _one_content(self) -> Self:
        if (self.text is None) == (self.content is None):
            raise PydanticCustomError("content", "needs either `text` or `content`")
        if self.content is not None and self.media_type is None:
            raise PydanticCustomError("media_type", "`content` needs its `media_type`")
        return self


def _some(documents: tuple[PostedDocument, ...]) -> tuple[PostedDocument, ...]:
    if not documents:
        raise PydanticCustomError("too_short", "must hold at least one document")
    return documents


class DocumentsRequest(StrictContract):
    """Documents to load into a namespace, at most 100; an id that exists needs `replace`."""

    namespace: Namespace = "default"
    """where they go"""
    documents: Annotated[
        Many[PostedDocument],
        AfterValidator(_some),
        Field(json_schema_extra={"minItems": 1, "maxItems": MAX_DOCUMENTS}),
    ]
    """at most a hundred, each id once"""
    replace: bool = False
    """whether documents of these ids that are loaded already are replaced"""


class DocumentsQuery(StrictContract):
    """Which page of a namespace's documents."""

    namespace: Namespace = Field("default", description="where to look")
    cursor: str | None = Field(
        None, max_length=2048, description="`cursor` of the page before; none: the first page"
    )


class DocumentName(StrictContract):
    """One document of a namespace."""

    namespace: Namespace = "default"
    doc_id: DocId


class PageName(DocumentName):
    """One page of a document, `n` from 1."""

    n: str = Field(pattern="^[1-9][0-9]{0,4}$")


class JobName(StrictContract):
    """One job."""

    id: str = Field(min_length=1, max_length=64)


class PassageRequest(StrictContract):
    """A citation to read in its surrounding text."""

    namespace: Namespace = Field("default", description="where the citation is from")
    uuid: Uuid = Field(description="`uuid` of the citation")
    char_start: int | None = Field(
        None, ge=0, description="`char_start` of the citation; lights the stretch up"
    )
    char_end: int | None = Field(None, ge=0, description="`char_end` of the citation")
    context: int = Field(
        1200, ge=0, le=8000, description="characters of the document shown on either side"
    )


class JobAccepted(Contract):
    """A job was queued; `GET /v1/jobs/{job_id}` tells how it goes."""

    job_id: str
    """ask `GET /v1/jobs/{job_id}` how it goes"""


class DocumentRejected(Contract):
    """A document that was not loaded, or not removed, and why."""

    doc_id: str
    """the document"""
    reason: str
    """why, in a sentence"""


class Job(Contract):
    """How a job goes. `loaded`: documents loaded, or unchanged; `removed`: documents removed.

    `reason`: why it failed as a whole.
    """

    job_id: str
    """the job"""
    namespace: str
    """where"""
    kind: JobKind
    """what it does"""
    state: JobState
    """how it goes"""
    loaded: int = 0
    """documents loaded, or unchanged"""
    removed: int = 0
    """documents removed"""
    rejected: tuple[DocumentRejected, ...] = ()
    """documents that were not loaded or not removed, with the reason"""
    notes: tuple[str, ...] = ()
    """what was not read of loaded documents, or how; each begins with the document's id"""
    reason: str = ""
    """why it failed as a whole"""


CANCELLED: Final = "it was cancelled; what it had loaded stays"


class JobOrder(Contract):
    """What a job has to do, for whom; `documents` of a load, `doc_id` of a removal."""

    job_id: str
    kind: JobKind
    caller: Caller
    namespace: str
    documents: tuple[PostedDocument, ...] = ()
    doc_id: str = ""
    replace: bool = False

    def job(self, state: JobState, **more: Any) -> Job:
        """Say how it goes; `more`: other fields of `Job`."""
        return Job(
            job_id=self.job_id, namespace=self.namespace, kind=self.kind, state=state, **more
        )


class ListedDocument(Contract):
    """A document as a list shows it. `loaded_at`: ISO 8601; `run_id`: the load that changed it."""

    doc_id: str
    """the document"""
    title: str
    """its title, or empty"""
    chunks: int
    """passages made of it"""
    run_id: str
    """the load that changed it"""
    loaded_at: str
    """when it was last changed, ISO 8601"""
    note: str = ""
    """what was not read, or read differently, with kind and number"""


class DocumentPage(Contract):
    """Documents in the order of their ids. `cursor`: of the next page, null on the last.

    `may_load`: whether the caller may load into this namespace and remove from it.
    """

    documents: tuple[ListedDocument, ...]
    """by id, a hundred at most"""
    cursor: str | None = None
    """of the next page; null on the last"""
    may_load: bool = False
    """whether the caller may load into this namespace and remove from it"""


class LastLoad(Contract):
    """The latest load that changed a document."""

    run_id: str
    """the load"""
    at: str
    """when, ISO 8601"""


class ListedNamespace(Contract):
    """A namespace with what the caller may read of it."""

    namespace: str
    """its name"""
    documents: int
    """documents the caller may read"""
    chunks: int
    """passages the caller may read"""
    last_load: LastLoad
    """the latest change"""
    may_load: bool = False
    """whether the caller may load into it and remove from it"""


class NamespaceList(Contract):
    """The namespaces that hold something the caller may read."""

    namespaces: tuple[ListedNamespace, ...]
    """by name"""


class Passage(Contract):
    """A chunk of a document with the text around it.

    `text` is the chunk; `before` and `after` are what stands next to it in its document, as far
    as the caller may read it. `char_start` and `char_end` are the chunk's place in its source
    (`offset_base` document) or in itself (chunk); code points. `lit`: the asked stretch of `text`.
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
