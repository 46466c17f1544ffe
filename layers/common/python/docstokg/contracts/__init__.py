"""Frozen models of requests, responses, messages and records."""

from typing import Any

Json = dict[str, Any]
"""A JSON object."""
