"""Reading and cutting of documents."""

import codecs
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from docstokg.contracts import Json
from docstokg.contracts.documents import id_problem
from docstokg.contracts.file_types import GENERATED, INFO_MARK, LONGEST_LINE, format_of
from docstokg.contracts.outline import Block, Outline
from docstokg.contracts.routes import MAX_DOCUMENTS_BYTES
from docstokg.domain.layout import packed
from docstokg.domain.text.words import compatible
from docstokg.errors import LoadError, Timeout, Unavailable
from docstokg.loading.read.chunking import cut_document
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.rejects import Rejected, Unreadable
from docstokg.loading.read.sources import Posted
from docstokg.loading.readers.front_matter import front_matter, understood
from docstokg.loading.readers.lines import check_depth, check_text
from docstokg.loading.readers.plain_text import outline_text, paragraph_blocks
from docstokg.ports import Converter, PieceCounter

# Formats whose text is the decoded file itself.
SOURCE_TEXTS = frozenset((".md", ".txt", ".rst"))

SAMPLE = 100_000
# One control character per this many bytes is allowed.
MOST_CONTROLS = 50

# Such a text may contain zero bytes; the UTF-32 mark begins like UTF-16.
BYTE_ORDER = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

# Terminal escape sequences (ECMA-48), such as colours.
TERMINAL = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|[@-Z\\^_])"
)

# Text formats from which terminal escape sequences are removed.
COLOURED = SOURCE_TEXTS | {".code", ".conf", ".csv", ".html", ".man"}

# Formats of identifiers: their words do not name entities.
NAMELESS = frozenset((".code", ".conf"))

LARGEST_FILE = 200 * 1024 * 1024
# Maximum characters after conversion; small files can expand far beyond.
LARGEST_TEXT = 50_000_000

# Maximum bytes of a PDF kept for display.
LARGEST_ORIGINAL = 50 * 1024 * 1024

# Maximum characters of a title.
LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed document; `body` is the start of the text after its front matter.

    `summary`: range of the front matter that is searched. `named`: the document sets its id itself.
    `converter`: reader and version, "" if the text is the decoded file. `nameless`: its words name
    no entities. `refused`: reject reason of an archive member. `original`: the file, if its pages
    can be displayed.
    """

    doc_id: str
    outline: Outline
    body: int
    fields: Json
    metadata: Json
    summary: tuple[int, int] | None = None
    named: bool = False
    converter: str = ""
    nameless: bool = False
    refused: str = ""
    original: bytes | None = None

    @property
    def text(self) -> str:
        """Return the decoded file or the converter's text."""
        return self.outline.text


def read_documents(path: Path, doc_id: str, converter: Converter) -> tuple[Document, ...]:
    """Read a file as one document, or several for an archive or a list of JSON documents.

    Offsets of text formats include line ends and front matter; those of others refer to the
    converter's text. Raises `Unreadable` for the file, `Rejected` for its content.
    """
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise Rejected(f"{size:,} bytes are more than {LARGEST_FILE:,}")
        suffix = format_of(path)
        if not suffix:
            with path.open("rb") as file:
                _check_is_text(file.read(SAMPLE))
        raw = path.read_bytes()
    except OSError as broken:
        raise Unreadable(path, broken) from broken
    if not suffix and raw.startswith(b"#!"):
        suffix = ".code"
    elif not suffix and any(len(line) > LONGEST_LINE for line in raw.splitlines()):
        raise Rejected(GENERATED)
    return _documents(raw, suffix or ".txt", doc_id, converter)


def _check_is_text(sample: bytes) -> None:
    controls = sum(byte < 32 and byte not in b"\t\n\f\r\v\b\x1b" for byte in sample)
    if not sample.startswith(BYTE_ORDER) and controls * MOST_CONTROLS > len(sample):
        raise Rejected("unsupported file extension, and not a text file")


def read_posted(posted: Posted, suffix: str, doc_id: str, converter: Converter) -> Document:
    """Read a posted document; the posted id and fields override its own.

    Raise `Rejected` for invalid content or several documents.
    """
    documents = _documents(posted.raw, suffix, doc_id, converter, MAX_DOCUMENTS_BYTES)
    if len(documents) != 1:
        raise Rejected(f"contains {len(documents)} documents; send each one separately")
    check_text([posted.metadata, posted.fields.get("title"), list(posted.fields.get("acl", ()))])
    check_depth(posted.metadata)
    return replace(
        documents[0],
        doc_id=doc_id,
        fields={**documents[0].fields, **posted.fields},
        metadata={**documents[0].metadata, **posted.metadata},
        named=True,
    )


def _documents(
    raw: bytes, suffix: str, doc_id: str, converter: Converter, limit: int = LARGEST_TEXT
) -> tuple[Document, ...]:
    made_by = converter.versions.get(suffix, "")
    plain = TERMINAL.sub(b"", raw) if suffix in COLOURED and b"\x1b" in raw else raw
    if not made_by and suffix not in SOURCE_TEXTS:
        raise _not_installed(suffix)
    try:
        if suffix in SOURCE_TEXTS:
            plain = INFO_MARK.sub(b"", plain)
            parsed = _text_document(plain, suffix, doc_id, converter)
            # The text differs from the file, so it is stored.
            return (parsed if plain == raw else replace(parsed, converter=f"docstokg/1 {made_by}"),)
        outlines = converter.convert(suffix, plain)
    except (Timeout, Unavailable) as ended:
        raise Rejected(str(ended)) from ended
    except Rejected:
        raise
    except LoadError as refused:
        raise Rejected(str(refused)) from refused
    documents = []
    original = raw if suffix == ".pdf" and len(raw) <= LARGEST_ORIGINAL else None
    for number, outline in enumerate(outlines):
        several = len(outlines) > 1 or outline.member
        own_id = outline.doc_id or (f"{doc_id}/{outline.member or number}" if several else doc_id)
        if wrong := outline.refused or (id_problem(own_id) if outline.member else ""):
            why = f"{outline.member}: {wrong}"
            documents.append(Document(own_id, outline, 0, {}, {}, refused=why))
            continue
        if (long := len(outline.text)) > limit:
            hint = "" if limit == LARGEST_TEXT else f"; `docstokg load` takes {LARGEST_TEXT:,}"
            raise Rejected(f"{long:,} characters of text are more than {limit:,}{hint}")
        kind = (format_of(PurePath(outline.member)) if outline.member else "") or suffix
        filled = replace(outline, blocks=_filled(outline.text, outline.blocks, 0))
        _check_id(own_id)
        check_text([own_id, outline.title, outline.metadata, list(outline.acl)])
        check_depth(outline.metadata)
        fields = {"acl": outline.acl, "title": outline.title}
        document = Document(
            own_id,
            filled,
            0,
            fields,
            outline.metadata,
            None,
            bool(outline.doc_id),
            made_by,
            kind.removesuffix(".gz") in NAMELESS,
            original=original,
        )
        documents.append(document)
    return tuple(documents)


def _not_installed(suffix: str) -> Rejected:
    return Rejected(f"the reader for {suffix} is not installed: pip install 'docstokg[documents]'")


def _check_id(doc_id: str) -> None:
    if problem := id_problem(doc_id):
        raise Rejected(f"doc_id {problem}")


def _text_document(raw: bytes, suffix: str, doc_id: str, converter: Converter) -> Document:
    encoding = ""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as broken:
        if ".txt" not in converter.versions:
            line = raw.count(b"\n", 0, broken.start) + 1
            raise Rejected(f"not UTF-8 in line {line}") from broken
        (decoded,) = converter.convert(".txt", raw)
        text, encoding = decoded.text, decoded.encoding
    if "\0" in text:
        raise Rejected(f"NUL character in line {text.count(chr(10), 0, text.index(chr(0))) + 1}")
    front = front_matter(text)
    body = front.end
    fields, metadata = understood(front.values)
    _check_id(fields.get("doc_id", doc_id))
    # Blank lines replace the front matter, so that offsets count in the whole file.
    visible_text = "".join(c if c in "\r\n" else " " for c in text[:body]) + text[body:]
    if suffix == ".txt":
        outline = outline_text(visible_text)
    elif suffix in converter.versions:
        (outline,) = converter.convert(suffix, visible_text.encode())
    else:
        raise _not_installed(suffix)
    blocks = _filled(visible_text, outline.blocks, body)
    return Document(
        doc_id=fields.get("doc_id", doc_id),
        outline=Outline(
            text, blocks, outline.title, encoding, notes=(front.note,) * bool(front.note)
        ),
        body=body,
        fields=fields,
        metadata=metadata,
        summary=front.summary,
        named="doc_id" in fields,
    )


def _filled(text: str, headings: tuple[Block, ...], body: int) -> tuple[Block, ...]:
    if any(block.kind not in ("heading", "gap", "row") for block in headings):
        return headings
    if not headings:
        return outline_text(text).blocks
    blocks: list[Block] = []
    begin = body
    for heading in headings:
        blocks += paragraph_blocks(text, begin, heading.start)
        blocks.append(heading)
        begin = heading.end
    return (*blocks, *paragraph_blocks(text, begin, len(text)))


def document_chunks(document: Document, name: str, counter: PieceCounter) -> Iterator[RawChunk]:
    """Cut a document at its headings and blocks, within the encoder's input length.

    Chunk texts are `document.text[char_start:char_start + len(text)]`; the summary comes first.
    """
    fields = document.fields
    title = (fields.get("title") or document.outline.title)[:LONGEST_TITLE]
    # Without a title, every chunk's encoder input contains the name.
    visible_text = title or Path(name).stem[:LONGEST_TITLE]
    known_as = () if title else (visible_text,)
    anchors = heading_anchors(document.outline.blocks)
    places = [entry for entry in document.outline.blocks if entry.anchor or entry.kind == "quote"]
    starts = [block.start for block in places]
    cuts = cut_document(
        document.outline, document.body, visible_text, counter, anchors, document.summary
    )
    for number, cut in enumerate(cuts):
        section = cut.section
        heading = section.heading.label if section.heading else ""
        at = bisect_right(starts, cut.start) - 1
        place = places[at] if at >= 0 and cut.start < places[at].end else None
        quoted: Json = {}
        if place and place.kind == "quote":
            quoted = {"quoted": True, "quoted_from": place.label}
        yield RawChunk(
            id=f"{document.doc_id}#{number}",
            doc_id=document.doc_id,
            text=document.text[cut.start : cut.end],
            title=title,
            headings=known_as + cut.headings,
            document_name=fields.get("document_name") or name,
            section=heading or None,
            uri=fields.get("uri"),
            anchor=(place.anchor if place else section.anchor) or None,
            page=int(section.page) if section.page.isdigit() else section.page or None,
            char_start=cut.start,
            layout=packed(document.outline.places, cut.start, cut.end),
            metadata={**document.metadata, **quoted},
            topics=fields.get("topics", ()),
            acl=fields.get("acl", ()),
            mentions=() if document.nameless else None,
            whole=True,
        )


def heading_anchors(blocks: tuple[Block, ...]) -> dict[int, str]:
    """Map each heading's start to its anchor, or to a numbered Markdown slug."""
    anchors: dict[int, str] = {}
    slugs = Counter[str]()
    for block in blocks:
        if block.kind == "heading":
            if block.anchor:
                anchors[block.start] = block.anchor
                continue
            slug = slugify(block.label)
            anchors[block.start] = f"{slug}-{slugs[slug]}" if slugs[slug] else slug
            slugs[slug] += 1
    return anchors


def slugify(heading: str) -> str:
    """Return Markdown renderers' anchor: lower case, no punctuation, hyphens for spaces."""
    characters = (
        character
        for character in compatible(heading, "NFC").lower()
        if character.isalnum() or character in " -_"
    )
    return "".join(characters).replace(" ", "-")
