"""Visibility and filters."""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

FIELDS = ("doc_id", "document_name", "section")
MAX_FACET_CHARACTERS = 256


def facet(key: str, value: object) -> str:
    """Return a filterable value as `key=json`; equal values have equal facets (1 is 1.0, not true).

    Over 256 characters: `key#` and a hash.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = f"{key}={json.dumps(value, ensure_ascii=False)}"
    if len(text) <= MAX_FACET_CHARACTERS:
        return text
    return f"{key[:128]}#{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def facets(
    fields: Mapping[str, object], topics: Iterable[str], metadata: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the sorted facets of a chunk: `doc_id`, `document_name`, `section`, `topic`, metadata.

    One per topic, metadata scalar, and element of a list. A metadata key named like a field or
    `topic` is ignored.
    """
    strings = {facet(key, fields[key]) for key in FIELDS if fields.get(key) is not None}
    strings |= {facet("topic", topic) for topic in topics}
    for key, value in metadata.items():
        if key not in FIELDS and key != "topic":
            elements = value if isinstance(value, list | tuple) else (value,)
            strings |= {
                facet(key, item) for item in elements if isinstance(item, str | int | float)
            }
    return tuple(sorted(strings))


def required(conditions: Mapping[str, Sequence[object]] | None) -> tuple[tuple[str, ...], ...]:
    """Return a request's filter as facet groups; a chunk must match one facet of each group.

    A number also matches the same number stored as text, and the reverse.
    """
    return tuple(
        tuple(sorted({facet(key, form) for value in values for form in _forms(value)}))
        for key, values in sorted((conditions or {}).items())
    )


def _forms(value: object) -> Iterator[object]:
    yield value
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            number = json.loads(value)
            if _is_number(number) and _text(number) == value:
                yield number
    elif _is_number(value):
        yield _text(value)


def _text(number: object) -> str:
    return json.dumps(number).removesuffix(".0")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def may_see(acl: Iterable[str], groups: Iterable[str] | None) -> bool:
    """Return whether a caller in `groups` (None: sees all) may see a chunk; empty `acl`: public."""
    acl = set(acl)
    return groups is None or not acl or not acl.isdisjoint(groups)
