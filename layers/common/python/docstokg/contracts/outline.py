"""Converter output."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

# `item`: list entry, or option with its description. `row`: always a separate passage. `quote`: the
# same, quoted in a reply or forwarded. `gap`: rule or comment.
BlockKind = Literal[
    "heading", "text", "list", "item", "table", "code", "row", "quote", "page", "gap"
]


# Reason for unread scanned pages. In AWS, the OCR packages exceed the size limit of Lambda.
SCANNED = "OCR needs docstokg[ocr]; at most 500 pages, 2 of an uploaded file; not in AWS"


@dataclass(frozen=True, slots=True)
class Block:
    """A range `text[start:end]` of whole lines of a document, in code points.

    `level`: heading level, 1 to 6. `label`: heading without markup, page number, subject of an item
    (`-k, --insecure`), or sender and date of a quote; else "". `anchor`: heading id, cell or line,
    if any. `children`: blocks at which a long block can be split.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    label: str = ""
    anchor: str = ""
    children: tuple["Block", ...] = ()


class Place(NamedTuple):
    """Position of a word or cell, `text[start:end]`, on its page.

    Coordinates are tenths of a point from the upper left corner. `ocr`: OCR confidence, 1 to 1000;
    0 for text from the file.
    """

    start: int
    end: int
    x0: int
    y0: int
    x1: int
    y1: int
    ocr: int = 0


@dataclass(frozen=True, slots=True)
class Outline:
    """Text of a document with its top-level blocks, ordered and non-overlapping.

    Text between blocks belongs to the previous block. `title`, `doc_id`, `acl`, `metadata`: from
    the document. `encoding`: other than UTF-8. `member`: name in the archive; `refused`: reason if
    that member was not read. `places`: of the words of a PDF, in text order. `scanned`: unread
    image pages. `notes`: omitted or changed parts, with kind and number.
    """

    text: str
    blocks: tuple[Block, ...] = ()
    title: str = ""
    encoding: str = ""
    doc_id: str = ""
    acl: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    member: str = ""
    refused: str = ""
    places: tuple[Place, ...] = ()
    scanned: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def noted(self, notes: tuple[str, ...]) -> "Outline":
        """Return a copy with these notes appended."""
        return replace(self, notes=(*self.notes, *notes))
