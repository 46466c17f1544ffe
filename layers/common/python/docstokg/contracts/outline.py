"""What a converter makes of a document: its text, and where its parts stand in that text."""

from dataclasses import dataclass, field
from typing import Any, Literal

BlockKind = Literal["heading", "text", "list", "item", "table", "code", "page", "gap"]
"""`item`: a list's entry, an option with its description, a row. `gap`: a rule, a comment."""


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch `text[start:end]` of a document, in whole lines; code points.

    `level`: of a heading, 1 to 6. `label`: a heading's words without marks, a page's number, or
    what an item is about (`-k, --insecure`); else "". `children`: where a long block may be cut.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    label: str = ""
    children: tuple["Block", ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """A document's text with its top-level blocks, in order and without overlap.

    What stands between blocks belongs to the one before. `title`: what the document calls itself.
    """

    text: str
    blocks: tuple[Block, ...]
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
