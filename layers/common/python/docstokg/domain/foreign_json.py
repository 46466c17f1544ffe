"""The one function that parses JSON written by another program."""

import json
from typing import Any

from docstokg.errors import WrongAnswer


def parsed(text: str | bytes, sender: str) -> Any:
    """Parse JSON; `WrongAnswer`, without its content, for anything else, however deep."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise WrongAnswer(f"{sender} sent something that is not JSON") from exc
