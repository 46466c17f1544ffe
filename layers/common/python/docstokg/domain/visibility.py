"""Who sees which chunk, and which filter it meets: the one rule that both stores apply."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

FIELDS = ("doc_id", "document_name", "section")
MAX_FACET_CHARACTERS = 256


def facet(key: str, value: object) -> str:
    """Name one filterable value, `key=json`; equal values give equal facets (1 is 1.0, not true).

    Long values are hashed, so that a keyword field or an index key always holds them.
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
    """List every facet of a chunk, sorted: FIELDS, each topic, each metadata scalar or element.

    A metadata key that is the name of a field or `topic` is shadowed by it.
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
    """Turn a request's filter into facet groups: every group must meet the chunk's facets."""
    return tuple(
        tuple(sorted({facet(key, value) for value in values}))
        for key, values in sorted((conditions or {}).items())
    )


def may_see(acl: Iterable[str], groups: Iterable[str] | None) -> bool:
    """Tell whether a caller in `groups` (None = sees everything) sees a chunk with this `acl`."""
    acl = set(acl)
    return groups is None or not acl or not acl.isdisjoint(groups)
