"""Entry point of the page in AWS: static files, no client, no credential.

It has nothing to build, so unlike the other handlers it is a plain function. `SIGN_IN` is its only
variable, public as all that it sends, and no setting of the product: this bundle holds no layer.
"""

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
    """Answer the gateway's event of one GET."""
    return reply(event["resource"], event["requestContext"]["path"], _sign_in())
