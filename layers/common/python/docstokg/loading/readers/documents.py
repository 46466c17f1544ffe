"""`*.md` and `*.txt`: documents cut at headings and sentences, every chunk an exact stretch."""

import datetime
import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from docstokg.domain.sentences import Span, sentence_spans
from docstokg.errors import LoadError
from docstokg.loading.given import GivenChunk
from docstokg.loading.rejects import Rejected

CHUNK_CHARACTERS = 1200
"""About the 256 word pieces the local encoder reads."""

LONGEST_SENTENCE = 2400

_FRONT = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)(?:^)---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_LINE = re.compile(r"[^\n]*\n|[^\n]+\Z")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\r?\n?\Z")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*\r?\n?\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_EMPHASIS = re.compile(r"[*`]+|(?<![^\W_])_+|_+(?![^\W_])")
_GENERIC = (
    "abstract acknowledgements acknowledgments appendix authors background changelog conclusion"
    " conclusions contents contributing discussion example examples faq introduction installation"
    " keywords license methods notes objective overview references related results summary"
    " table usage"
)
GENERIC_HEADINGS = frozenset(_GENERIC.split()) | {
    "see also",
    "further reading",
    "external links",
    "getting started",
    "table of contents",
    "materials and methods",
}
_FIELDS = ("doc_id", "title", "document_name", "uri", "topics", "acl")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: its words without marks, and the anchor readers link to."""

    start: int
    end: int
    level: int
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Document:
    """A document's own words about itself; `body` is where the text after them begins."""

    doc_id: str
    text: str
    body: int
    fields: dict[str, Any]
    metadata: dict[str, Any]
    headings: tuple[Heading, ...]


def read_document(path: Path, doc_id: str) -> Document:
    """Decode a file as it is (line ends and front matter kept, they count in offsets).

    `Rejected` for what is not UTF-8 or holds NUL, and for front matter that is not understood.
    """
    try:
        raw = path.read_bytes()
    except OSError as broken:
        raise LoadError(f"{path} cannot be read: {broken.strerror}") from broken
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as broken:
        line = raw.count(b"\n", 0, broken.start) + 1
        raise Rejected(f"not UTF-8 in line {line}") from broken
    if "\0" in text:
        raise Rejected(f"NUL character in line {text.count(chr(10), 0, text.index(chr(0))) + 1}")
    front, body = _front_matter(text)
    fields, metadata = _understood(front)
    markdown = path.suffix.lower() == ".md"
    return Document(
        doc_id=fields.get("doc_id") or doc_id,
        text=text,
        body=body,
        fields=fields,
        metadata=metadata,
        headings=find_headings(text, body) if markdown else (),
    )


def document_chunks(document: Document, name: str) -> Iterator[GivenChunk]:
    """Cut a document at every heading, and a long section between sentences.

    Chunk texts are `document.text[char_start:char_start + len(text)]`, at most CHUNK_CHARACTERS
    unless one sentence is longer, without white space at their ends.
    """
    fields = document.fields
    first = document.headings[0] if document.headings else None
    title = fields.get("title") or (first.text if first and first.level == 1 else "")
    for number, (span, heading) in enumerate(_stretches(document)):
        telling = heading is not None and is_telling(heading.text)
        yield GivenChunk(
            id=f"{document.doc_id}#{number}",
            doc_id=document.doc_id,
            text=document.text[span.start : span.end],
            title=title,
            document_name=fields.get("document_name") or name,
            section=heading.text if heading and heading.text else None,
            uri=fields.get("uri"),
            anchor=heading.anchor if heading and heading.anchor else None,
            char_start=span.start,
            metadata=document.metadata,
            topics=fields.get("topics", ()),
            acl=fields.get("acl", ()),
            names=(heading.text,) if heading and telling else (),
            whole=True,
        )


def find_headings(text: str, begin: int = 0) -> tuple[Heading, ...]:
    """List the ATX and setext headings of a Markdown text, not those inside code fences."""
    found: list[Heading] = []
    slugs: dict[str, int] = {}
    fence: str | None = None
    before: tuple[int, str] | None = None
    for match in _LINE.finditer(text, begin):
        line, start, end = match[0], match.start(), match.end()
        mark = _FENCE.match(line)
        if fence is not None:
            if mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence):
                closes = not line[mark.end() :].strip()
                fence = None if closes else fence
            before = None
            continue
        if mark:
            fence, before = mark[1], None
            continue
        if atx := _ATX.match(line):
            found.append(_heading(start, end, len(atx[1]), atx[2] or "", slugs))
            before = None
        elif before is not None and (under := _SETEXT.match(line)):
            level = 1 if under[1][0] == "=" else 2
            found.append(_heading(before[0], end, level, before[1], slugs))
            before = None
        else:
            plain = line.strip()
            # Only a paragraph of one line is a heading here; a list item or quote is none.
            alone = (
                before is None and bool(plain) and not plain.startswith((">", "-", "*", "+", "|"))
            )
            previous_blank = start == begin or text[begin:start].endswith(("\n\n", "\n\r\n"))
            before = (start, plain) if alone and (previous_blank or start == begin) else None
    return tuple(found)


def is_telling(heading: str) -> bool:
    """Tell whether a heading names something, rather than a part every document has."""
    folded = heading.casefold().strip(" .:0123456789")
    return len(folded) > 2 and folded not in GENERIC_HEADINGS


def _heading(start: int, end: int, level: int, raw: str, slugs: dict[str, int]) -> Heading:
    text = _EMPHASIS.sub("", _LINK.sub(r"\1", raw)).strip()
    slug = slugify(text)
    seen = slugs.get(slug, 0)
    slugs[slug] = seen + 1
    return Heading(start, end, level, text, f"{slug}-{seen}" if seen else slug)


def slugify(heading: str) -> str:
    """Give the anchor that Markdown readers make: small letters, hyphens for spaces."""
    kept = (
        character
        for character in unicodedata.normalize("NFC", heading).lower()
        if character.isalnum() or character in " -_"
    )
    return "".join(kept).replace(" ", "-")


def _stretches(document: Document) -> Iterator[tuple[Span, Heading | None]]:
    starts: list[tuple[int, Heading | None]] = [(document.body, None)]
    starts += [(heading.start, heading) for heading in document.headings]
    ends = [start for start, _ in starts[1:]] + [len(document.text)]
    for (start, heading), end in zip(starts, ends, strict=True):
        own = heading.end if heading is not None else start
        # A heading with nothing below it says nothing that its children do not.
        if document.text[own:end].strip():
            for span in pack_sentences(document.text[start:end]):
                yield Span(span.start + start, span.end + start), heading


def pack_sentences(text: str, limit: int = CHUNK_CHARACTERS) -> tuple[Span, ...]:
    """Put consecutive sentences together up to `limit` characters; cut giants at white space."""
    packed: list[Span] = []
    for span in sentence_spans(text):
        for piece in _pieces(text, span):
            if packed and piece.end - packed[-1].start <= limit:
                packed[-1] = Span(packed[-1].start, piece.end)
            else:
                packed.append(piece)
    return tuple(packed)


def _pieces(text: str, span: Span) -> Iterator[Span]:
    start = span.start
    while span.end - start > LONGEST_SENTENCE:
        cut = max(
            text.rfind(" ", start + 1, start + LONGEST_SENTENCE),
            text.rfind("\n", start + 1, start + LONGEST_SENTENCE),
        )
        if cut <= start:
            cut = start + LONGEST_SENTENCE
        piece = text[start:cut]
        yield Span(start, start + len(piece.rstrip()))
        rest = text[cut : span.end]
        start = cut + len(rest) - len(rest.lstrip())
    if start < span.end:
        yield Span(start, span.end)


def _front_matter(text: str) -> tuple[dict[str, Any], int]:
    match = _FRONT.match(text)
    if match is None:
        return {}, 1 if text.startswith("\ufeff") else 0
    try:
        front = yaml.safe_load(match[1])
    except yaml.YAMLError as broken:
        mark = getattr(broken, "problem_mark", None)
        line = f" in line {mark.line + 2}" if mark is not None else ""
        raise Rejected(f"front matter is no YAML{line}") from broken
    except ValueError as broken:
        raise Rejected(f"front matter: {broken}") from broken
    if front is None:
        return {}, match.end()
    if not isinstance(front, dict):
        raise Rejected("front matter is no mapping of keys to values")
    return {str(key): _plain(value) for key, value in front.items()}, match.end()


def _understood(front: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split front matter into fields of a chunk and metadata."""
    fields: dict[str, Any] = {}
    for key in _FIELDS:
        value = front.get(key)
        if value is None:
            continue
        if key in ("topics", "acl"):
            many = value if isinstance(value, list) else [value]
            if not all(isinstance(item, str) for item in many):
                raise Rejected(f"front matter: {key} must be strings")
            fields[key] = tuple(dict.fromkeys(many))
        elif isinstance(value, str | int) and not isinstance(value, bool):
            fields[key] = str(value)
        else:
            raise Rejected(f"front matter: {key} must be a string")
    return fields, {key: value for key, value in front.items() if key not in _FIELDS}


def _plain(value: Any) -> Any:
    """Turn what YAML knows and JSON does not into JSON values."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set):
        return sorted((_plain(item) for item in value), key=str)
    if isinstance(value, datetime.date | datetime.datetime | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise Rejected("front matter holds a number that is not finite")
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            raise Rejected("front matter holds NUL or a lone surrogate")
        return value
    if isinstance(value, bool | int | float) or value is None:
        return value
    return str(value)
