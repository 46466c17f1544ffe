"""Entry point: gateway's authorizer."""

from docstokg.entry import entry_point
from docstokg.wiring import Handler, Wiring
from docstokg_functions.authorize.authorize import authorize


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    tokens = wiring.token_verifier()
    return lambda event, context: authorize(event, tokens.caller)


__getattr__ = entry_point(build, globals())
