"""Notebooks, JSON and JSON lines."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.convert_markdown import outline_markdown
from docstokg.adapters.conversion.package import check_depth
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

# Maximum characters of a cell's output.
LONGEST_OUTPUT = 2000

_CONTENT = re.compile(r"\S")
_FIELDS = ("doc_id", "title", "metadata", "acl", "text")
# Fields of each line of `documents.jsonl` in an export.
_EXPORTED = frozenset(("doc_id", "sha256", "named"))


def convert_notebook(raw: bytes) -> Outline:
    """Read Markdown, code and printed text into one outline; raise `LoadError` for other files."""
    book = _parsed(raw)[0]
    if not isinstance(book, dict) or not isinstance(book.get("cells"), list):
        raise LoadError("not a notebook: no cells")
    maker = TextMaker()
    for cell in book["cells"]:
        if not isinstance(cell, dict):
            continue
        source = _joined(cell.get("source"))
        kind = cell.get("cell_type")
        if kind == "markdown":
            maker.insert(outline_markdown(source))
            continue
        parts = [source.strip("\n")]
        for output in cell.get("outputs") or ():
            if isinstance(output, dict):
                data = output.get("data")
                plain = data.get("text/plain") if isinstance(data, dict) else None
                if printed := _joined(output.get("text") or plain)[:LONGEST_OUTPUT].strip("\n"):
                    parts.append(f"Output: {printed}")
                elif data:
                    maker.left_out["outputs without text not read"] += 1
        maker.add("code" if kind == "code" else "text", "\n".join(filter(None, parts)))
    return maker.outline()


def convert_json(raw: bytes) -> Outline | tuple[Outline, ...]:
    """Return an outline per object with `text`, else one of values by key path.

    Raise `LoadError` for invalid JSON or fields, no text, or a part of an export.
    """
    value, encoding = _parsed(raw)
    items = value if isinstance(value, list) and value else [value]
    if all(isinstance(item, dict) and item.keys() >= _EXPORTED for item in items):
        raise LoadError("is a part of a `docstokg export`; load the .zip file instead")
    if all(map(_is_document, items)):
        return tuple(_document(item, encoding) for item in items)
    maker = TextMaker()
    record: list[tuple[str, str]] = []
    _write(maker, value, "", 0, record)
    _write_row(maker, record)
    converted = maker.outline(encoding=encoding)
    if not converted.text:
        raise LoadError("contains no text")
    return converted


def _parsed(raw: bytes) -> tuple[Any, str]:
    """Return the value, or a list of several values such as those of JSON lines, and encoding."""
    text, encoding = decode(raw)
    decoder = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)
    values: list[Any] = []
    whole, place = text.removeprefix("\ufeff"), 0
    try:
        while content := _CONTENT.search(whole, place):
            value, place = decoder.raw_decode(whole, content.start())
            values.append(value)
    except json.JSONDecodeError as broken:
        reason = f"{broken.msg} in line {broken.lineno}"
        raise LoadError(f"not JSON: {reason}") from broken
    except (RecursionError, ValueError) as broken:
        raise LoadError("not JSON: nested too deeply, or a number is too long") from broken
    if not values:
        raise LoadError("contains no text")
    return (values if len(values) > 1 else values[0]), encoding


def _no_number(name: str) -> float:
    raise LoadError(f"not JSON: {name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise LoadError(f"the number {text[:40]} is too large")
    return number


def _is_document(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("text"), str)


def _document(value: dict[str, Any], encoding: str) -> Outline:
    acl = value.get("acl") or []
    if not isinstance(acl, list) or not all(isinstance(group, str) for group in acl):
        raise LoadError("acl: must be a list of strings")
    for key in ("doc_id", "title"):
        if not isinstance(value.get(key, ""), str):
            raise LoadError(f"{key}: must be a string")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise LoadError("metadata: must be an object")
    others = {key: item for key, item in value.items() if key not in _FIELDS}
    outline = outline_markdown(value["text"])
    return Outline(
        text=value["text"],
        blocks=outline.blocks,
        title=value.get("title") or outline.title,
        encoding=encoding,
        doc_id=value.get("doc_id", ""),
        acl=tuple(acl),
        metadata={**others, **metadata},
    )


def _write(
    maker: TextMaker, value: object, path: str, depth: int, record: list[tuple[str, str]]
) -> None:
    """Write several objects as a row each, and collect other values for a row before them."""
    check_depth(depth)
    if isinstance(value, dict):
        are_objects = len(value) > 1 and all(isinstance(item, dict) for item in value.values())
        for key, item in value.items():
            if are_objects:
                _write_row(maker, record)
            _write(maker, item, f"{path}.{key}" if path else str(key), depth + 1, record)
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        _write_row(maker, record)
        for item in value:
            _write_row(maker, list(_values(item, path, depth + 1)))
    else:
        record += _values(value, path, depth)


def _write_row(maker: TextMaker, record: list[tuple[str, str]]) -> None:
    if all(name for name, _ in record):
        maker.row([name for name, _ in record], [words for _, words in record])
    else:
        for name, words in record:
            maker.add("text", f"{name}: {words}" if name else words, label=name[:80])
    record.clear()


def _values(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    check_depth(depth)
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _values(item, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list):
        if value and all(isinstance(item, str | int | float) for item in value):
            yield path, ", ".join(one_line(str(item)) for item in value)
        else:
            for number, item in enumerate(value):
                yield from _values(item, f"{path}[{number}]", depth + 1)
    elif isinstance(value, str):
        if value.strip():
            yield path, value.strip()
    elif value is not None:
        yield path, json.dumps(value)


def _joined(source: object) -> str:
    if isinstance(source, list):
        return "".join(line for line in source if isinstance(line, str))
    return source if isinstance(source, str) else ""
