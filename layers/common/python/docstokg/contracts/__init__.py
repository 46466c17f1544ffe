"""Frozen models."""

from typing import Any

# A JSON object.
Json = dict[str, Any]
