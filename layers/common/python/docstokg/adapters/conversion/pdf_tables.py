"""PDF tables."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, pairwise
from statistics import median

from docstokg.adapters.conversion.convert_lines import GOES_ON
from docstokg.adapters.conversion.pdf_page import THIN, Box, Word, union
from docstokg.adapters.conversion.table_header import Cell

# Words by line.
type Lines = Sequence[Sequence[Word]]

MOST_RULES = 3_000
MOST_CELLS = 10_000
# Minimum rows of a table without drawn lines.
FEWEST_ROWS = 3

# Columns of prose: minimum lines, median words of a line, and share of full lines.
FEWEST_LINES = 4
FEWEST_WORDS = 3
FULL = 0.7
# Width of a full line with the next word, as a share of the column's.
WIDE = 0.8

# Maximum median words of the narrowest column; prose has more.
LONGEST_WORDS = 6


@dataclass(slots=True, eq=False)
class Table:
    """A table and its words.

    `named`: the first row may name the columns. `columns`: the lines of each column of prose; it is
    no table then.
    """

    rows: list[list[Cell]]
    words: Sequence[Word]
    named: bool = True
    columns: Sequence[Lines] = ()


def tables_of(words: Sequence[Word], level: Sequence[Box], upright: Sequence[Box]) -> list[Table]:
    """Find the page's tables, by drawn lines or alignment; `words` are in file order."""
    tables: list[Table] = []
    loose = dict.fromkeys(words)
    for rules in _together(level, upright):
        table = _ruled(loose, *rules)
        if table:
            tables.append(table)
            loose = dict.fromkeys(word for word in loose if word not in set(table.words))
    return [*tables, *_aligned(loose)]


def _together(level: Sequence[Box], upright: Sequence[Box]) -> list[tuple[list[Box], list[Box]]]:
    groups: list[tuple[Box, list[Box], list[Box]]] = []
    if len(level) + len(upright) > MOST_RULES:
        return []
    for kind, rules in enumerate((level, upright)):
        for rule in rules:
            drawn = (rule, [] if kind else [rule], [rule] if kind else [])
            apart = []
            for group in groups:
                if _touch(group[0], drawn[0]):
                    drawn = (union((group[0], drawn[0])), group[1] + drawn[1], group[2] + drawn[2])
                else:
                    apart.append(group)
            groups = [*apart, drawn]
    return [(across, down) for _, across, down in groups]


def _touch(first_box: Box, other: Box) -> bool:
    across = first_box[0] <= other[2] + THIN and other[0] <= first_box[2] + THIN
    return across and first_box[1] <= other[3] + THIN and other[1] <= first_box[3] + THIN


def _ruled(loose: Iterable[Word], level: Sequence[Box], upright: Sequence[Box]) -> Table | None:
    ys = _lines(level, upright, 1)
    xs = _lines(upright, level, 0)
    if len(xs) < 3 or len(ys) < 2 or len(xs) * len(ys) > MOST_CELLS:
        return None
    grid: dict[tuple[int, int], list[Word]] = defaultdict(list)
    for word in loose:
        x, y = word.middle
        row, column = bisect_right(ys, y) - 1, bisect_right(xs, x) - 1
        if 0 <= row < len(ys) - 1 and 0 <= column < len(xs) - 1:
            while row and not _parted(level, 1, ys[row], (xs[column] + xs[column + 1]) / 2):
                row -= 1
            grid[row, column].append(word)
    rows: list[list[Cell]] = []
    for row, (top, bottom) in enumerate(pairwise(ys)):
        columns = _merged(xs, (top + bottom) / 2, upright)
        parts = _split([[word for n in members for word in grid[row, n]] for members in columns])
        joined = [
            row > 0 and not _parted(level, 1, top, (xs[members[0]] + xs[members[-1] + 1]) / 2)
            for members in columns
        ]
        rows += [
            [
                replace(Cell(None) if goes_on else _cell(cell), columns=len(members))
                for members, cell, goes_on in zip(columns, part, joined, strict=True)
            ]
            for part in parts
        ]
    if sum(sum(bool(cell.text) for cell in row) > 1 for row in rows) < 2:
        return None
    return Table(rows, list(chain.from_iterable(grid.values())))


def _lines(rules: Sequence[Box], others: Sequence[Box], way: int) -> list[int]:
    ends = [end for rule in others for end in (rule[way], rule[way + 2])]
    return _apart([*(rule[way] for rule in rules), *([min(ends), max(ends)] if ends else ())])


def _apart(places: Iterable[int]) -> list[int]:
    apart_places: list[int] = []
    for place in sorted(places):
        if not apart_places or place - apart_places[-1] > 2 * THIN:
            apart_places.append(place)
    return apart_places


def _parted(rules: Sequence[Box], way: int, at: int, across: float) -> bool:
    return any(
        abs(rule[way] - at) <= 2 * THIN and rule[1 - way] <= across <= rule[3 - way]
        for rule in rules
    )


def _merged(xs: Sequence[int], y: float, upright: Sequence[Box]) -> list[list[int]]:
    cells = [[0]]
    for column, x in enumerate(xs[1:-1], 1):
        if _parted(upright, 0, x, y):
            cells.append([column])
        else:
            cells[-1].append(column)
    return cells


def _split(cells: Sequence[list[Word]]) -> list[list[list[Word]]]:
    lines = rows_of(chain.from_iterable(cells))
    starts = [line for line in lines if line[0] in cells[0]]
    filled = [sum(not set(line).isdisjoint(members) for members in cells) for line in starts]
    if len(starts) < 2 or min(filled) < max(2, len(cells) // 2):
        return [list(cells)]
    tops = [min(word.box[1] for word in line) for line in starts][1:]
    parts: list[list[list[Word]]] = [[[] for _ in cells] for _ in starts]
    for column, members in enumerate(cells):
        for word in members:
            parts[bisect_right(tops, word.middle[1])][column].append(word)
    return parts


def rows_of(words: Iterable[Word]) -> list[list[Word]]:
    """Return words by line, from the top, left to right."""
    lines: list[list[Word]] = []
    bottom = 0.0
    for word in sorted(words, key=lambda word: word.middle[1]):
        if not lines or word.middle[1] > bottom:
            lines.append([])
            bottom = word.middle[1] + (word.box[3] - word.box[1]) * 0.4
        lines[-1].append(word)
    return [sorted(line, key=lambda word: word.box[0]) for line in lines]


def _cell(words: Sequence[Word]) -> Cell:
    if not words:
        return Cell("")
    text = " ".join(word.text for line in rows_of(words) for word in line)
    text = text.replace(f"{GOES_ON} ", "").replace(GOES_ON, "-")
    return Cell(text, box=_box(words))


def _box(words: Iterable[Word]) -> Box:
    return union(word.box for word in words)


def _aligned(loose: Iterable[Word]) -> list[Table]:
    order = {word: at for at, word in enumerate(loose)}
    tables: list[Table] = []
    region: list[Lines] = []
    for parts in [*map(_parts, rows_of(order)), []]:
        if _belongs(region, parts):
            region.append(parts)
            continue
        if table := _columns(region, order):
            tables.append(table)
        region = [parts] if len(parts) > 1 else []
    return tables


def _parts(line: Sequence[Word]) -> Lines:
    parts = [[line[0]]]
    for before, word in pairwise(line):
        if word.box[0] - before.box[2] > 0.8 * (word.box[3] - word.box[1]):
            parts.append([])
        parts[-1].append(word)
    return parts


def _belongs(region: Sequence[Lines], parts: Lines) -> bool:
    if not region or not parts:
        return len(parts) > 1
    box_here, above = parts[0][0].box, region[-1][0][0].box
    if box_here[1] - above[3] > 1.6 * (box_here[3] - box_here[1]):
        return False
    second = region[0][1][0].box[0]
    if len(parts) > 1 or box_here[0] >= second - THIN:
        return True
    return parts[0][-1].box[2] < second and bool(_prose(_covered(region), region))


def _columns(region: Sequence[Lines], order: Mapping[Word, int]) -> Table | None:
    if sum(len(parts) > 1 for parts in region) < FEWEST_ROWS:
        return None
    columns = _covered(region)
    if prose := _prose(columns, region):
        return Table([], [*chain.from_iterable(chain.from_iterable(prose))], columns=prose)
    table: list[list[list[Word]]] = []
    for parts in region:
        cells: list[list[Word]] = [[] for _ in columns]
        for part in parts:
            low_x, _, right, _ = _box(part)
            over = [n for n, (low, high) in enumerate(columns) if low < right and low_x < high]
            for word in part:
                cells[over[0] if len(over) == 1 else _nearest(columns, word)].append(word)
        if table and not cells[0] and len(parts) < len(columns):
            for above, further in zip(table[-1], cells, strict=True):
                above.extend(further)
        else:
            table.append(cells)
    every = [[order[word] for members in cells for word in members] for cells in table]
    filled = sum(bool(members) for cells in table for members in cells)
    sizes = [
        median([len(members) for members in each if members] or [0])
        for each in zip(*table, strict=True)
    ]
    in_order = sum(max(above) < min(below) for above, below in pairwise(every))
    if (
        len(columns) < 2
        or len(table) < FEWEST_ROWS
        or filled < 0.6 * len(table) * len(columns)
        or min(sizes) > LONGEST_WORDS
        or in_order < 0.8 * (len(table) - 1)
    ):
        return None
    rows = [list(map(_cell, cells)) for cells in table]
    words = [list(chain.from_iterable(cells)) for cells in table]
    fonts = [{word.font for word in row} for row in words]
    return Table(
        rows,
        [*chain.from_iterable(words)],
        len(columns) > 2 or fonts[0].isdisjoint(fonts[1]),
    )


def _prose(columns: Sequence[tuple[int, int]], region: Sequence[Lines]) -> list[list[list[Word]]]:
    prose: list[list[list[Word]]] = [[] for _ in columns]
    for line in (list(chain.from_iterable(parts)) for parts in region):
        for column, lines in enumerate(prose):
            if inside := [word for word in line if _nearest(columns, word) == column]:
                lines.append(inside)
    return prose if len(prose) > 1 and all(map(_is_prose, prose)) else []


def _is_prose(lines: Lines) -> bool:
    if len(lines) < FEWEST_LINES:
        return False
    # A line of prose is full: the next word does not fit, at any letter widths.
    low_x, _, right, _ = _box(chain.from_iterable(lines))
    full = sum(
        line[-1].box[2] + following[0].box[2] - following[0].box[0]
        >= low_x + WIDE * (right - low_x)
        for line, following in pairwise(lines)
    )
    is_wide = median(map(len, lines)) >= FEWEST_WORDS
    is_full = full >= FULL * (len(lines) - 1)
    return (
        is_full and is_wide and any(word.text[-1] in ".!?" for line in lines for word in line[:-1])
    )


def _nearest(columns: Sequence[tuple[int, int]], word: Word) -> int:
    middle = word.middle[0]
    return min(
        range(len(columns)), key=lambda n: max(columns[n][0] - middle, middle - columns[n][1])
    )


def _covered(region: Sequence[Lines]) -> list[tuple[int, int]]:
    rows = [list(map(_box, parts)) for parts in region if len(parts) > 1]
    few = len(rows) // 8
    boxes = list(chain.from_iterable(rows))
    edges = sorted([*((box[0], 1) for box in boxes), *((box[2], -1) for box in boxes)])
    columns: list[tuple[int, int]] = []
    covered = start = 0
    for x, steps in groupby(edges, key=lambda edge: edge[0]):
        before = covered
        covered += sum(step for _, step in steps)
        if before <= few < covered:
            start = x
        elif covered <= few < before:
            columns.append((start, x))
    return columns
