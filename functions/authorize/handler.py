"""Entry point of the gateway's authoriser."""

from docstokg.entry import entry_point
from docstokg.wiring import Handler, Wiring
from docstokg_functions.authorize.authorize import authorize


def build(wiring: Wiring) -> Handler:
    """Make the handler; the issuer's public keys are fetched when a token first needs one."""
    tokens = wiring.token_verifier()
    return lambda event, context: authorize(event, tokens.caller)


__getattr__ = entry_point(build, globals())
