"""Entry point of the gateway's authoriser."""

from typing import Any

from docstokg.entry import entry_point
from docstokg.wiring import Handler, Wiring
from docstokg_functions.authorize.authorize import authorize


def build(wiring: Wiring) -> Handler:
    """Make the handler; the issuer's public keys are fetched when a token first needs one."""
    tokens = wiring.token_verifier()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return authorize(event, tokens.caller)

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
