"""Frozen models."""

import json
from typing import Any

# A JSON object.
Json = dict[str, Any]


def compact_json(value: object) -> str:
    """Return JSON without spaces; characters beyond ASCII are not escaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
