"""Writes functions/page/static/words.js."""

import json
import sys

from docstokg.contracts.check import VERDICT_REASONS
from docstokg.contracts.documents import MEDIA_TYPES
from docstokg.contracts.file_types import SUFFIXES
from docstokg.contracts.response import REASONS


def media() -> dict[str, str]:
    """Return the media type of each file ending that the page can upload; others go as text."""
    types: dict[str, str] = {}
    for media_type, suffix in MEDIA_TYPES.items():
        types.setdefault(SUFFIXES[suffix], media_type)
    plain = SUFFIXES[".txt"]
    return {
        suffix[1:]: types[kind]
        for suffix, kind in SUFFIXES.items()
        if kind in types and kind != plain
    }


def module() -> str:
    """Return the JavaScript module as text."""
    tables = {"REASONS": REASONS, "WHY": VERDICT_REASONS, "MEDIA": media()}
    lines = ["// Written by `make page-words` from contracts/."]
    lines += [f"export const {n} = {json.dumps(t, indent=2)};" for n, t in tables.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(module() + "\n")
