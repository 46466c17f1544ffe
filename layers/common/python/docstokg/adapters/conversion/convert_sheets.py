"""CSV and XLSX."""

import csv
import datetime
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.convert_office import (
    Words,
    colour_of,
    is_on,
    look_of,
    write_chart,
)
from docstokg.adapters.conversion.marks import WHITE, hidden_kind
from docstokg.adapters.conversion.number_format import BUILT_IN, EPOCH, shown
from docstokg.adapters.conversion.numbering import integer
from docstokg.adapters.conversion.package import MISSING, Package, part_of
from docstokg.adapters.conversion.table_header import (
    Cell,
    begins_a_table,
    column_names,
    header_rows,
)
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

# A row's first cell (`A7`) and values.
type Row = tuple[str, Sequence[str]]

DELIMITERS = ",;\t|"
SAMPLE = 20_000
MOST_COLUMNS = 16_384
_CELL = re.compile(r"([A-Z]{1,3})(\d+)")
_MERGED = re.compile(r"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})")
_SEPARATOR = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
# Maximum lines of a quoted cell; more mean an unclosed quote.
LONGEST_RECORD = 1_000

# Maximum cells per sheet filled from merged cells.
MOST_MERGED = 100_000

# Number of rows examined to find the header rows.
FIRST_ROWS = 5


def convert_csv(raw: bytes) -> Outline:
    """Return one outline with each row as `column: value` lines, or with a lone row as text.

    Raises `LoadError` without rows and for binary data.
    """
    text, encoding = decode(raw)
    rows = [row for row in _records(text.removeprefix("\ufeff")) if any(row)]
    if not rows:
        raise LoadError("contains no rows")
    maker = TextMaker()
    _write(maker, [("", list(map(one_line, row))) for row in rows])
    return maker.outline(encoding=encoding)


def _records(text: str) -> Iterator[list[str]]:
    csv.field_size_limit(10_000_000)
    dialect: type[csv.Dialect] | str
    if named := _SEPARATOR.match(text):
        text = text[named.end() :]
        dialect = type("Named", (csv.excel,), {"delimiter": named[1]})
    else:
        try:
            dialect = csv.Sniffer().sniff(text[:SAMPLE], DELIMITERS)
        except csv.Error:
            dialect = "excel-tab" if "\t" in text.partition("\n")[0] else "excel"
    lines = io.StringIO(text, newline="").readlines()
    at = begin = 0

    def following() -> Iterator[str]:
        nonlocal at
        while at < min(len(lines), begin + LONGEST_RECORD):
            at += 1
            yield lines[at - 1]

    while at < len(lines):
        begin = at
        try:
            yield next(csv.reader(following(), dialect, strict=True))
        except StopIteration:
            return
        except csv.Error:
            at = begin + 1
            yield from csv.reader(lines[begin:at], dialect, quoting=csv.QUOTE_NONE)


def convert_xlsx(raw: bytes) -> Outline:
    """Return one outline of the values of visible sheets; dates are ISO 8601.

    Raises `LoadError` for an unreadable file.
    """
    package = Package(raw, "XLSX workbook")
    main = package.main()
    links = package.links(main)
    parts = dict(links.values())
    formats = _formats(package.optional(parts.get("styles", "")))
    book = package.tree(main)
    late = is_on(part_of(book, "workbookPr"), "date1904")
    first = datetime.datetime(1904, 1, 1) if late else EPOCH
    maker, charts = TextMaker(), list[str]()
    words = Words(maker.left_out, background="")
    strings = [words.of(item) for item in package.optional(parts.get("sharedStrings", ""))]
    for sheet in book.iter("sheet"):
        if sheet.get("state", "visible") != "visible":
            words.left_out["hidden sheets not read"] += 1
            continue
        kind, name = links.pop(sheet.get("rel:id", ""), ("", ""))
        if kind != "worksheet":
            continue
        cells = package.tree(name)
        words.left_out["formulas without a value not read"] += sum(
            cell.find("f") is not None and not cell.findtext("v") for cell in cells.iter("c")
        )
        rows = _rows(cells, strings, formats, first, words)
        write_sheet(maker, sheet.get("name", ""), _visible(cells, rows, maker.left_out))
        drawings = [part for kind, part in package.links(name).values() if kind == "drawing"]
        for chart in (link for part in drawings for link in package.links(part).values()):
            if chart[0] == "chart":
                charts.append(chart[1])
                write_chart(maker, package.tree(chart[1]))
    words.count(package, charts)
    return maker.outline(package.title())


def write_sheet(maker: TextMaker, name: str, rows: Iterable[tuple[int, Sequence[str]]]) -> None:
    """Write a sheet as a page; rows of one value, also merged, above its table are text.

    Each row's anchor is its first cell, as in `A7`. After empty rows, a header begins another
    table; the rows of several tables name theirs.
    """
    maker.page(name)
    areas: list[list[Row]] = [[]]
    before = 0
    for number, values in rows:
        if any(values):
            if areas[-1] and number > before + 1:
                areas.append([])
            areas[-1].append((f"A{number}", values))
            before = number
    tables: list[tuple[list[Row], list[Row]]] = []
    for area in areas:
        titles = list(takewhile(lambda row: _is_title(row[1]), area))
        table = area[len(titles) :]
        if tables and tables[-1][1] and not _is_new(tables[-1][1], table, bool(titles)):
            tables[-1][1].extend(area)
        else:
            tables.append((titles, table))
    several = sum(bool(table) for _, table in tables) > 1
    for titles, table in tables:
        title = _first(titles.pop()[1]) if titles and table and several else ""
        for place, values in titles:
            maker.add("text", _first(values), anchor=place)
        _write(maker, table, title)


def _first(values: Sequence[str]) -> str:
    return next(filter(None, values))


def _is_title(values: Sequence[str]) -> bool:
    count = sum(map(bool, values))
    # Merged cells repeat their value.
    return count == 1 or (values[0] != "" and set(values) - {""} == {values[0]})


def _is_new(table: Sequence[Row], area: Sequence[Row], has_title: bool) -> bool:
    if len(area) < 2:
        return False
    first = [list(map(Cell, values)) for _, values in area[:FIRST_ROWS]]
    return begins_a_table(first) or (has_title and area[0][1][0] == table[0][1][0])


def _write(maker: TextMaker, table: Sequence[Row], title: str = "") -> None:
    width = max((len(values) for _, values in table[:FIRST_ROWS]), default=0)
    first = [
        [*map(Cell, values), *[Cell("")] * (width - len(values))]
        for _, values in table[:FIRST_ROWS]
    ]
    heads = max(1, header_rows(first))
    names = [name or f"column {at}" for at, name in enumerate(column_names(first[:heads]), 1)]
    names[:1] = [f"{name} ({title})" if title else name for name in names[:1]]
    for place, values in table[heads:]:
        maker.row(names, values, place)
    if len(table) > heads:
        rows = [values for _, values in table[heads:]]
        maker.empty_columns(column_names(first[:heads]), rows)
    if table and len(table) <= heads:
        maker.add("text", ", ".join(filter(None, names)), anchor=table[0][0])


def _rows(
    sheet: Element,
    strings: Sequence[str],
    formats: Sequence[tuple[str, str]],
    first: datetime.datetime,
    words: Words,
) -> Iterator[tuple[int, list[str]]]:
    number = 0
    below = _merges(sheet)
    values_of: dict[tuple[int, int], str] = {}
    for row in sheet.iter("row"):
        values: list[str] = []
        number += 1
        for cell in row.iter("c"):
            if place := _CELL.fullmatch(cell.get("r", "")):
                number = int(place[2])
                values += [""] * (min(_column(place[1]), MOST_COLUMNS) - 1 - len(values))
            style = cell.get("s", "0")
            has_style = style.isdecimal() and int(style) < len(formats)
            code, kind = formats[int(style)] if has_style else ("", "")
            inline = cell.find("is")
            text = _value(cell, strings, code, first) if inline is None else words.of(inline)
            value = one_line(text) if text else ""
            if kind and value:
                words.left_out[kind] += 1
                value = ""
            values.append(value)
        for column, origin in below.pop(number, ()):
            values += [""] * (column - len(values))
            if origin == (number, column):
                values_of[origin] = values[column - 1]
            else:
                values[column - 1] = values[column - 1] or values_of.get(origin, "")
        yield number, values


def _visible(
    sheet: Element, rows: Iterable[tuple[int, list[str]]], left_out: Counter[str]
) -> Iterator[tuple[int, list[str]]]:
    hidden = {
        row.get("r", str(at)) for at, row in enumerate(sheet.iter("row"), 1) if is_on(row, "hidden")
    }
    columns = {
        at
        for column in sheet.iter("col")
        if is_on(column, "hidden")
        for at in range(
            integer(column.get("min")) - 1, min(integer(column.get("max")), MOST_COLUMNS)
        )
    }
    unread = set[int]()
    for number, values in rows:
        if str(number) in hidden:
            left_out["hidden rows not read"] += any(values)
            continue
        if columns:
            unread.update(at for at in columns if at < len(values) and values[at])
            values = [value for at, value in enumerate(values) if at not in columns]  # noqa: PLW2901
        yield number, values
    left_out["hidden columns not read"] += len(unread)


def _merges(sheet: Element) -> dict[int, list[tuple[int, tuple[int, int]]]]:
    merged: dict[int, list[tuple[int, tuple[int, int]]]] = defaultdict(list)
    room = MOST_MERGED
    for merge in sheet.iter("mergeCell"):
        if (place := _MERGED.fullmatch(merge.get("ref", ""))) is None:
            continue
        low, high = _column(place[1]), min(_column(place[3]), MOST_COLUMNS)
        room -= (high - low + 1) * (int(place[4]) - int(place[2]) + 1)
        if room < 0:
            break
        for row in range(int(place[2]), int(place[4]) + 1):
            merged[row] += [(column, (int(place[2]), low)) for column in range(low, high + 1)]
    return merged


def _column(letters: str) -> int:
    column = 0
    for letter in letters:
        column = column * 26 + ord(letter) - 64
    return column


def _value(cell: Element, strings: Sequence[str], code: str, first: datetime.datetime) -> str:
    kind, value = cell.get("t", "n"), cell.findtext("v") or ""
    if kind == "s":
        return strings[int(value)] if value.isdecimal() and int(value) < len(strings) else ""
    if kind == "b":
        return "yes" if value == "1" else "no"
    return shown(value, code, first) if kind == "n" and value else value


def _formats(styles: Element) -> list[tuple[str, str]]:
    codes = {str(number): code for number, code in BUILT_IN.items()} | {
        form.get("numFmtId", ""): form.get("formatCode", "") for form in styles.iter("numFmt")
    }
    fonts, fills = (styles.findall(f"{name}/*") for name in ("fonts", "fills"))
    formats = []
    for style in styles.findall("cellXfs/*"):
        font, fill = (integer(style.get(name), 0) for name in ("fontId", "fillId"))
        pattern = part_of(fills[fill], "patternFill") if fill < len(fills) else MISSING
        background = colour_of(pattern) if pattern.get("patternType") == "solid" else WHITE
        look = look_of(fonts[font]) if font < len(fonts) else {}
        kind = hidden_kind(look, background, 2)
        formats.append((codes.get(style.get("numFmtId", "0"), ""), kind))
    return formats
