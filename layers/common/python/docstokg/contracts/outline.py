"""What a converter makes of a document: its text, and where its parts stand in that text."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

BlockKind = Literal["heading", "text", "list", "item", "table", "code", "row", "page", "gap"]
"""`item`: a list's entry, an option with its description. `row`: a passage of its own, never put
together with others. `gap`: a rule, a comment."""


SCANNED = "docstokg[ocr] reads scanned pages: 500 of a file, 2 of one that is sent, none in AWS"
"""Why they are not, in a few words: its packages are larger than a function may be."""


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch `text[start:end]` of a document, in whole lines; code points.

    `level`: of a heading, 1 to 6. `label`: a heading's words without marks, a page's number, or
    what an item is about (`-k, --insecure`); else "". `anchor`: its place, where it has one: a
    heading's id, a cell, a line. `children`: where a long block may be cut.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    label: str = ""
    anchor: str = ""
    children: tuple["Block", ...] = ()


class Place(NamedTuple):
    """Where `text[start:end]`, a word or a cell, stands on its page.

    Tenths of a point from the page's upper left corner. `ocr`: how sure it was read from a picture,
    of 1000; 0 where the file says the text.
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
    """A document's text with its top-level blocks, in order and without overlap.

    What stands between blocks belongs to the one before. `title`, `doc_id`, `acl`, `metadata`:
    what the document says of itself. `encoding`: of a text that is not UTF-8. `member`: its name
    inside the archive that holds it; `refused`: why that member is not read. `places`: of a PDF's
    words, in the order of the text. `scanned`: pages of a PDF that are pictures and were not read.
    `notes`: parts that were left out or read differently, each with its kind and number.
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
        """Return a copy with these notes after its own."""
        return replace(self, notes=(*self.notes, *notes))
