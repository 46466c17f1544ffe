"""How converters that make a text write it: block after block, each knowing its place."""

from dataclasses import replace
from itertools import pairwise

from docstokg.contracts.outline import Block, BlockKind, Outline


class TextMaker:
    """Collects a document's text with its blocks, one blank line between them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.blocks: list[Block] = []

    def add(
        self, kind: BlockKind, text: str, level: int = 0, label: str = "", anchor: str = ""
    ) -> None:
        """Write one block; nothing when it is empty. A table's or list's lines stay apart."""
        if not text.strip():
            return
        start = self._length
        self._write(text + "\n")
        children: tuple[Block, ...] = ()
        if kind in ("table", "code", "list"):
            places = [start]
            for line in text.split("\n"):
                places.append(places[-1] + len(line) + 1)
            children = tuple(Block("item", low, high) for low, high in pairwise(places))
        self.blocks.append(Block(kind, start, self._length, level, label, anchor, children))
        self._write("\n")

    def page(self, label: str) -> None:
        """Begin a page."""
        self.blocks.append(Block("page", self._length, self._length, label=label))

    def insert(self, outline: Outline) -> None:
        """Write another text with its blocks at this place."""
        base = self._length
        self._write(outline.text if outline.text.endswith("\n") else outline.text + "\n")
        self.blocks.extend(moved(block, base) for block in outline.blocks)
        self._write("\n")

    def outline(self, title: str = "") -> Outline:
        """Give what was written; a first heading of level 1 is the title where none is given."""
        first = next((b.label for b in self.blocks if b.kind == "heading" and b.level == 1), "")
        return Outline("".join(self._parts), tuple(self.blocks), title=title.strip() or first)

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)


def moved(block: Block, by: int) -> Block:
    """Give the block as it stands `by` characters later."""
    children = tuple(moved(child, by) for child in block.children)
    return replace(block, start=block.start + by, end=block.end + by, children=children)


def one_line(text: str) -> str:
    """Give a text with every run of white space one space."""
    return " ".join(text.split())
