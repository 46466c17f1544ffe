"""Entry point: gateway's authorizer."""

from docstokg.entry import entry_point
from docstokg.wiring import Handler, Wiring, by_name
from docstokg_functions.authorize.authorize import authorize


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    tokens = wiring.token_verifier()
    owners = by_name((wiring.settings.plan_keys or "").split(","))
    return lambda event, context: authorize(event, tokens.caller, owners)


__getattr__ = entry_point(build, globals())
