"""Text writer."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from docstokg.adapters.conversion.marks import render
from docstokg.adapters.conversion.table_header import (
    LONGEST_LABEL,
    MOST_HEADS,
    Cell,
    begins_a_table,
    column_names,
    header_rows,
)
from docstokg.contracts.outline import Block, BlockKind, Outline, Place
from docstokg.domain.text.words import is_visible

# Maximum span of a merged cell; Word allows 63 columns.
MOST_COLUMNS = 64

# Maximum repeated characters of a cell merged over rows.
LONGEST_COPY = 200

# Marks a word that continues on the next line.
GOES_ON = "\2"


class TextMaker:
    """Collects a text and its blocks, separated by blank lines.

    `left_out`: numbers of omitted parts, by kind.
    """

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()
        self._parts: list[str] = []
        self._length = 0
        self.blocks: list[Block] = []
        self.places: list[Place] = []

    def add(
        self, kind: BlockKind, text: str, level: int = 0, label: str = "", anchor: str = ""
    ) -> None:
        """Write a text with visible characters as a block; empty ones are ignored.

        Lines of tables, lists, code and rows are children.
        """
        if not is_visible(text):
            return
        start = self._length
        self._write(text + "\n")
        children: tuple[Block, ...] = ()
        if kind in ("table", "code", "list", "row"):
            places = [start]
            for line in text.split("\n"):
                places.append(places[-1] + len(line) + 1)
            children = tuple(Block("item", low, high) for low, high in pairwise(places))
        self.blocks.append(Block(kind, start, self._length, level, label, anchor, children))
        self._write("\n")

    def heading(self, words: str, level: int, anchor: str = "") -> None:
        """Write a heading unless it is empty; `level` is clamped to 1-6."""
        self.add("heading", words, min(max(level, 1), 6), words, anchor)

    def row(self, names: Sequence[str], values: Sequence[str], anchor: str = "") -> None:
        """Write a row as a passage of `name: value` lines, omitting empty values."""
        pairs = [
            f"{names[at] if at < len(names) else f'column {at + 1}'}: {value}"
            for at, value in enumerate(values)
            if value
        ]
        label = values[0][:LONGEST_LABEL] if values else ""
        self.add("row", "\n".join(pairs), label=label, anchor=anchor)

    def table(
        self,
        rows: Iterable[Sequence[Cell]],
        may_name: bool = True,
        above: Sequence[str] = (),
        name: str = "",
    ) -> list[str]:
        """Write a table, one self-contained line per row; return its column names.

        A line reads `Model: City; Weight: 21 kg.`, or `Weight: 21 kg.` for two columns without
        names. `may_name`: an unmarked first row may name the columns. `above`: column names of the
        continued table, whose repeated header is dropped. `name`: the table's name, written before
        each row, or once if long.
        """
        if len(name) > LONGEST_LABEL:
            self.add("text", name)
        begin = f"{name.rstrip('.:')} — " if 0 < len(name) <= LONGEST_LABEL else ""
        table = [row for row in filled(rows) if any(cell.text for cell in row)]
        heads = header_rows(table) if may_name or (table and table[0][0].head) else 0
        heads = heads if heads < len(table) else 0  # a table of headers only is data
        names = column_names(table[:heads])
        if above and table and len(table[0]) == len(above):
            sizes = range(1, MOST_HEADS + 1)
            repeats = next((n for n in sizes if column_names(table[:n]) == list(above)), 0)
            if repeats or not begins_a_table(table):
                names, heads = list(above), repeats
        for row in table[heads:]:
            cells = [(at, cell) for at, cell in enumerate(row) if cell.text and cell.columns]
            between = "; " if names else ": " if len(row) == 2 else " | "
            parts = [
                f"{names[at]}: {cell.text}" if at < len(names) and names[at] else cell.text or ""
                for at, cell in cells
            ]
            start = self._length + len(begin)
            for part, (_, cell) in zip(parts, cells, strict=True):
                if cell.box:
                    self.places.append(Place(start, start + len(part), *cell.box))
                start += len(part) + len(between)
            line = begin + between.join(parts)
            # Without a final stop a row looks like a heading.
            self.add("text", line if len(parts) < 2 or line[-1] in ".!?:" else f"{line}.")
        self.empty_columns(names, [[cell.text for cell in row] for row in table[heads:]])
        return names

    def empty_columns(self, names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        """Write the names of columns that have no value in any row."""
        empty = [
            name
            for at, name in enumerate(names)
            if name and not any(at < len(row) and row[at] for row in rows)
        ]
        if empty:
            self.add("text", f"Columns without values: {'; '.join(empty)}.")

    def lines(
        self, lines: Iterable[Sequence[tuple[str, tuple[int, int, int, int]]]], ending: str = ""
    ) -> None:
        """Write a paragraph of words, each with its box (as in `Place`).

        `ending`: words of the next page that complete its last sentence.
        """
        text, start = "", self._length
        for line in lines:
            for number, (word, box) in enumerate(line):
                if text and not text.endswith(GOES_ON):
                    text += " " if number else "\n"
                text = text.removesuffix(GOES_ON)
                begin = start + len(text)
                text += word
                self.places.append(Place(begin, start + len(text.removesuffix(GOES_ON)), *box))
        text = text.removesuffix(GOES_ON) + ending if ending else text
        self.add("text", text.replace(GOES_ON, "-"))

    def page(self, label: str) -> None:
        """Start a page."""
        self.blocks.append(Block("page", self._length, self._length, label=label))

    def insert(self, outline: Outline) -> None:
        """Write another text with its blocks at this place."""
        base = self._length
        self._write(outline.text if outline.text.endswith("\n") else outline.text + "\n")
        self.blocks.extend(moved(block, base) for block in outline.blocks)
        for note in outline.notes:
            kind, _, number = note.rpartition(": ")
            self.left_out[kind] += int(number)
        self._write("\n")

    def outline(self, title: str = "", encoding: str = "") -> Outline:
        """Return the text, titled `title` or its first heading of level 1; record `encoding`."""
        first = next((b.label for b in self.blocks if b.kind == "heading" and b.level == 1), "")
        return Outline(
            "".join(self._parts),
            tuple(self.blocks),
            title.strip() or first,
            encoding,
            places=tuple(self.places),
            notes=tuple(f"{kind}: {n}" for kind, n in self.left_out.items() if kind and n),
        )

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)


def filled(rows: Iterable[Sequence[Cell]]) -> Iterator[list[Cell]]:
    """Yield rows with a cell for each column: merged cells are repeated."""
    below: dict[int, tuple[int, Cell]] = {}
    above: list[Cell] = []
    for row in rows:
        row_cells: list[Cell] = []
        for cell in row:
            _carried(row_cells, below)
            if cell.text is None:
                upper = above[len(row_cells)] if len(row_cells) < len(above) else Cell("")
                text, box = _copied(upper), upper.box
                cell = replace(cell, text=text, box=box)  # noqa: PLW2901 - the same cell
            span = max(1, min(cell.columns, MOST_COLUMNS - len(row_cells)))
            if cell.rows > 1:
                copy = replace(cell, text=_copied(cell))
                below |= {len(row_cells) + n: (cell.rows - 1, copy) for n in range(span)}
            if span > 1:
                row_cells += [replace(cell, columns=0 if n else 1) for n in range(span)]
            else:
                row_cells.append(cell)
        _carried(row_cells, below)
        above = row_cells
        yield row_cells


def _copied(cell: Cell) -> str:
    text = cell.text or ""
    return text if len(text) <= LONGEST_COPY else text[:LONGEST_COPY].rpartition(" ")[0]


def _carried(row_cells: list[Cell], below: dict[int, tuple[int, Cell]]) -> None:
    while (reaching := below.pop(len(row_cells), None)) is not None:
        rows, cell = reaching
        if rows > 1:
            below[len(row_cells)] = rows - 1, cell
        row_cells.append(replace(cell, columns=1))


def moved(block: Block, by: int) -> Block:
    """Return the block moved by `by` characters."""
    children = tuple(moved(child, by) for child in block.children)
    return replace(block, start=block.start + by, end=block.end + by, children=children)


def one_line(text: str) -> str:
    """Return a text with marks rendered and white space normalised to single spaces."""
    return " ".join(render(text).split())
