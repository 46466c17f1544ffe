"""Documents: read as they are, cut by their outline, every chunk an exact stretch."""

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docstokg.contracts.outline import Block, Outline
from docstokg.errors import LoadError
from docstokg.loading.chunking import Cut, Section, cut_document
from docstokg.loading.given import GivenChunk
from docstokg.loading.readers.front_matter import front_matter, summary_span, understood
from docstokg.loading.readers.plain_text import outline_text
from docstokg.loading.rejects import Rejected
from docstokg.ports import Converter, PieceCounter

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
LONGEST_TITLE = 200
"""Characters of a title that are kept."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document's own words about itself; `body` is where the text after them begins.

    `summary`: where its front matter tells what it is about.
    """

    doc_id: str
    outline: Outline
    body: int
    fields: dict[str, Any]
    metadata: dict[str, Any]
    summary: tuple[int, int] | None = None

    @property
    def text(self) -> str:
        """Give the decoded file."""
        return self.outline.text


def read_document(path: Path, doc_id: str, converters: Mapping[str, Converter]) -> Document:
    """Decode a file as it is (line ends and front matter kept, they count in offsets).

    `converters`: by suffix. `Rejected` for what is not UTF-8 or holds NUL, and for front matter
    that is not understood.
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
    front, body = front_matter(text)
    fields, metadata = understood(front)
    converter = converters.get(path.suffix.lower())
    # Blank lines in place of the front matter, so that places count in the whole file.
    hidden = "".join(c if c in "\r\n" else " " for c in text[:body])
    shown = hidden + text[body:]
    outline = converter.outline(shown) if converter is not None else outline_text(shown)
    return Document(
        doc_id=fields.get("doc_id") or doc_id,
        outline=Outline(text, outline.blocks, outline.title, outline.metadata),
        body=body,
        fields=fields,
        metadata=metadata,
        summary=summary_span(text),
    )


def document_chunks(document: Document, name: str, counter: PieceCounter) -> Iterator[GivenChunk]:
    """Cut a document at its headings and blocks, each chunk no longer than the encoder reads.

    Chunk texts are `document.text[char_start:char_start + len(text)]`, without white space at
    their ends; what the front matter says of the document comes first. A document without a
    title is known to encoders and word search by its name.
    """
    fields = document.fields
    title = (fields.get("title") or document.outline.title)[:LONGEST_TITLE]
    known_as = () if title else (Path(name).stem[:LONGEST_TITLE],)
    anchors = heading_anchors(document.outline.blocks)
    cuts = cut_document(document.outline, document.body, title, counter, anchors)
    for number, cut in enumerate(_all_cuts(document, cuts)):
        section = cut.section
        heading = section.heading.label if section.heading is not None else ""
        yield GivenChunk(
            id=f"{document.doc_id}#{number}",
            doc_id=document.doc_id,
            text=document.text[cut.start : cut.end],
            title=title,
            headings=known_as + cut.headings,
            document_name=fields.get("document_name") or name,
            section=heading or None,
            uri=fields.get("uri"),
            anchor=section.anchor or None,
            char_start=cut.start,
            metadata=document.metadata,
            topics=fields.get("topics", ()),
            acl=fields.get("acl", ()),
            names=(heading,) if heading and is_telling(heading) else (),
            whole=True,
        )


def _all_cuts(document: Document, cuts: Iterator[Cut]) -> Iterator[Cut]:
    if document.summary is not None:
        yield Cut(*document.summary, Section(), ())
    yield from cuts


def heading_anchors(blocks: tuple[Block, ...]) -> dict[int, str]:
    """Give each heading the anchor that Markdown readers make; equal ones are numbered."""
    anchors: dict[int, str] = {}
    slugs: dict[str, int] = {}
    for block in blocks:
        if block.kind == "heading":
            slug = slugify(block.label)
            seen = slugs.get(slug, 0)
            slugs[slug] = seen + 1
            anchors[block.start] = f"{slug}-{seen}" if seen else slug
    return anchors


def is_telling(heading: str) -> bool:
    """Tell whether a heading names something, rather than a part every document has."""
    folded = heading.casefold().strip(" .:0123456789")
    return len(folded) > 2 and folded not in GENERIC_HEADINGS


def slugify(heading: str) -> str:
    """Give the anchor that Markdown readers make: small letters, hyphens for spaces."""
    kept = (
        character
        for character in unicodedata.normalize("NFC", heading).lower()
        if character.isalnum() or character in " -_"
    )
    return "".join(kept).replace(" ", "-")
