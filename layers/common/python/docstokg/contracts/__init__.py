"""Frozen models of requests, responses, messages and records."""

from typing import Any

# A JSON object.
Json = dict[str, Any]
