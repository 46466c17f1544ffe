"""Entry point: page in AWS, without credentials."""

import json
import os
from functools import cache
from typing import Any

from docstokg_functions.page.page import SignIn, reply


@cache
def _sign_in() -> SignIn | None:
    text = os.environ.get("SIGN_IN", "")
    return SignIn(**json.loads(text)) if text else None


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the file for the gateway's event of one GET, 404 or a redirect, as `reply`."""
    return reply(event["resource"], event["requestContext"]["path"], _sign_in())
