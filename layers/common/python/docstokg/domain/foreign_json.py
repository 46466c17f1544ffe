"""Parsing of untrusted JSON."""

import json
from typing import Any

from docstokg.errors import WrongAnswer


def parsed(text: str | bytes, sender: str) -> Any:
    """Parse JSON; raise `WrongAnswer`, without the content, if it is invalid or nested too deep."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise WrongAnswer(f"{sender} sent something that is not JSON") from exc
