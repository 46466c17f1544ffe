"""Entry point of the page in AWS: static files, no setting, no client, no credential.

It has nothing to build, so unlike the other handlers it is a plain function.
"""

from typing import Any

from functions.page.page import reply


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Answer the gateway's event of one GET."""
    return reply(event["resource"], event["requestContext"]["path"])
