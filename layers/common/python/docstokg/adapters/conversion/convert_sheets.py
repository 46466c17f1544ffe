"""Tables of data, a row a passage under its columns' names: CSV and its kin, XLSX, ODS."""

import csv
import datetime
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.package import Package
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

DELIMITERS = ",;\t|"
SAMPLE = 20_000
MOST_COLUMNS = 16_384
_CELL = re.compile(r"([A-Z]{1,3})(\d+)")
_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
"""Numbers of the built-in formats that show a date or a time."""

_DATE_FORMAT = re.compile(r"[ymdhs]", re.IGNORECASE)
_FIXED = re.compile(r"\"[^\"]{0,255}+\"|\\.|\[[^\[\]]{0,255}+\]")


def convert_csv(raw: bytes) -> tuple[Outline, ...]:
    """Write each row as `column: value` lines; the first row names the columns."""
    text, encoding = decode(raw)
    csv.field_size_limit(10_000_000)
    text = text.removeprefix("\ufeff")
    try:
        dialect: type[csv.Dialect] | str = csv.Sniffer().sniff(text[:SAMPLE], DELIMITERS)
    except csv.Error:
        dialect = "excel-tab" if "\t" in text.partition("\n")[0] else "excel"
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), dialect) if any(row)]
    except csv.Error as broken:
        raise LoadError(f"it is no CSV: {broken}") from broken
    if not rows:
        raise LoadError("it holds no rows")
    names = _names(rows[0])
    maker = TextMaker()
    for row in rows[1:]:
        maker.row(names, list(map(one_line, row)))
    if len(rows) == 1:
        maker.add("text", ", ".join(names))
    return (maker.outline(encoding=encoding),)


def convert_xlsx(raw: bytes) -> tuple[Outline, ...]:
    """Take the values of every sheet that is shown, dates as dates."""
    package = Package(raw, "XLSX workbook")
    main = package.main()
    links = package.links(main)
    parts = dict(links.values())
    strings = [_text(item) for item in package.optional(parts.get("sharedStrings", ""))]
    dates = _date_styles(package.optional(parts.get("styles", "")))
    book = package.tree(main)
    setting = book.find("workbookPr")
    late = setting is not None and setting.get("date1904") in ("1", "true")
    first = datetime.datetime(1904, 1, 1) if late else datetime.datetime(1899, 12, 30)
    maker = TextMaker()
    for sheet in book.iter("sheet"):
        kind, name = links.pop(sheet.get("rel:id", ""), ("", ""))
        if kind == "worksheet" and sheet.get("state", "visible") == "visible":
            rows = _rows(package.tree(name), strings, dates, first)
            write_sheet(maker, sheet.get("name", ""), rows)
    return (maker.outline(package.title()),)


def write_sheet(maker: TextMaker, name: str, rows: Iterable[tuple[int, Sequence[str]]]) -> None:
    """Write a sheet as a page; its first row of two values names the columns, those above are text.

    Each row's place is its first cell, as in `B7`.
    """
    maker.page(name)
    names, heads = list[str](), ("", "")
    for number, values in rows:
        if not any(values):
            continue
        place = f"A{number}"
        if names:
            maker.row(names, values, place)
        elif sum(map(bool, values)) > 1:
            names = _names(values)
            heads = ", ".join(filter(None, values)), place
        else:
            maker.add("text", "".join(values), anchor=place)
    if names and (not maker.blocks or maker.blocks[-1].kind != "row"):
        maker.add("text", heads[0], anchor=heads[1])


def _names(row: Sequence[str]) -> list[str]:
    return [one_line(name) or f"column {place}" for place, name in enumerate(row, 1)]


def _rows(
    sheet: Element, strings: Sequence[str], dates: frozenset[int], first: datetime.datetime
) -> Iterator[tuple[int, list[str]]]:
    number = 0
    for row in sheet.iter("row"):
        values: list[str] = []
        number += 1
        for cell in row.iter("c"):
            if place := _CELL.fullmatch(cell.get("r", "")):
                column = 0
                for letter in place[1]:
                    column = column * 26 + ord(letter) - 64
                number = int(place[2])
                values += [""] * (min(column, MOST_COLUMNS) - 1 - len(values))
            values.append(one_line(_value(cell, strings, dates, first)))
        yield number, values


def _value(
    cell: Element, strings: Sequence[str], dates: frozenset[int], first: datetime.datetime
) -> str:
    kind, value = cell.get("t", "n"), cell.findtext("v") or ""
    if kind == "inlineStr":
        return _text(cell)
    if kind == "s":
        return strings[int(value)] if value.isdecimal() and int(value) < len(strings) else ""
    if kind == "b":
        return "yes" if value == "1" else "no"
    if kind != "n" or not value:
        return value
    try:
        if int(cell.get("s", "0")) not in dates:
            return f"{float(value):.15g}" if "." in value or "E" in value.upper() else value
        moment = first + datetime.timedelta(days=float(value))
    except (ValueError, OverflowError):
        return value
    if float(value) < 1:
        return moment.strftime("%H:%M")
    return moment.strftime("%Y-%m-%d" if moment.time() == datetime.time() else "%Y-%m-%d %H:%M")


def _date_styles(styles: Element) -> frozenset[int]:
    """Give the numbers of the cell styles that show dates."""
    own = {
        form.get("numFmtId"): bool(_DATE_FORMAT.search(_FIXED.sub("", form.get("formatCode", ""))))
        for form in styles.iter("numFmt")
    }
    used = styles.find("cellXfs")
    numbers = [style.get("numFmtId", "0") for style in used] if used is not None else []
    return frozenset(
        at
        for at, number in enumerate(numbers)
        if own.get(number, number.isdecimal() and int(number) in _DATES)
    )


def _text(item: Element) -> str:
    """Give a string's text without its reading aids."""
    return "".join(
        part.text or ""
        for run in item.iter()
        if run.tag in ("si", "r", "is")
        for part in run
        if part.tag == "t"
    ) or (item.findtext("t") or "")
