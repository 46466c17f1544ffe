"""CSV: a row a passage, every value under its column's name."""

import csv
import io

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

DELIMITERS = ",;\t|"
SAMPLE = 20_000


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Write each row as `column: value` lines; the first row names the columns."""
    text, encoding = decode(raw)
    csv.field_size_limit(10_000_000)
    text = text.removeprefix("\ufeff")
    try:
        dialect: type[csv.Dialect] | str = csv.Sniffer().sniff(text[:SAMPLE], DELIMITERS)
    except csv.Error:
        dialect = "excel"
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), dialect) if any(row)]
    except csv.Error as broken:
        raise LoadError(f"it is no CSV: {broken}") from broken
    if not rows:
        raise LoadError("it holds no rows")
    names = [one_line(name) or f"column {place}" for place, name in enumerate(rows[0], 1)]
    maker = TextMaker()
    for row in rows[1:]:
        pairs = [
            f"{names[place] if place < len(names) else f'column {place + 1}'}: {one_line(value)}"
            for place, value in enumerate(row)
            if value.strip()
        ]
        maker.add("row", "\n".join(pairs), label=one_line(row[0])[:80])
    if len(rows) == 1:
        maker.add("text", ", ".join(names))
    made = maker.outline()
    return (Outline(made.text, made.blocks, encoding=encoding),)
