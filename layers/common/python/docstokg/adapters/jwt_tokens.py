"""Tokens of an issuer we trust, checked against its published keys."""

from typing import Any

import jwt

from docstokg.contracts.state import Caller
from docstokg.errors import Unavailable

# Asymmetric only: with HMAC in the list, the public key itself would sign a forgery.
ALGORITHMS = ("RS256", "ES256", "EdDSA")
LEEWAY_S = 30
KEYS_LIFESPAN_S = 600


class JwksTokens:
    """Verifies signature, issuer, audience and time; reads `sub`, `namespaces` and `groups`."""

    def __init__(self, issuer: str, audience: str, jwks_url: str, timeout_s: float = 2.0) -> None:
        self._issuer = issuer
        self._audience = audience
        self._keys = jwt.PyJWKClient(
            jwks_url, cache_keys=True, lifespan=KEYS_LIFESPAN_S, timeout=timeout_s
        )

    def caller(self, token: str) -> Caller | None:
        """Give who the token names, None when it is not valid; `Unavailable` without keys."""
        try:
            key = self._keys.get_signing_key_from_jwt(token)
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWKClientConnectionError as exc:
            raise Unavailable("the issuer's keys cannot be fetched") from exc
        except (jwt.PyJWTError, ValueError):
            return None
        namespaces, groups = _names(claims, "namespaces"), _names(claims, "groups")
        if namespaces is None or groups is None or not isinstance(claims["sub"], str):
            return None
        return Caller(sub=claims["sub"], namespaces=namespaces, groups=groups)


def _names(claims: dict[str, Any], claim: str) -> tuple[str, ...] | None:
    """Give a list claim, () when absent, None when it is anything but a list of strings."""
    value = claims.get(claim, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return tuple(value)
