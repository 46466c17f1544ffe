"""JWT verification."""

from http import HTTPStatus
from typing import Any, NamedTuple

import jwt

from docstokg.adapters.exchange import exchanged, refusal, send
from docstokg.contracts.envelope import Caller
from docstokg.domain.deadline import Deadline
from docstokg.domain.foreign_json import parsed
from docstokg.errors import DocsToKGError, Unavailable

# Asymmetric only: with HMAC in the list, the public key itself could sign a forgery.
ALGORITHMS = ("RS256", "ES256", "EdDSA")
LEEWAY_S = 30
KEYS_LIFESPAN_S = 600
# Fetching the keys for every forged id would let attackers overload the issuer.
UNKNOWN_LIFESPAN_S = 60


class Claims(NamedTuple):
    """Names of the claims for audience, readable and loadable namespaces, and groups."""

    audience: str = "aud"
    namespaces: str = "namespaces"
    groups: str = "groups"
    load: str = "load"


KEYS_TIME_S = 2.0
MOST_BYTES = 1 << 20


class _PublishedKeys(jwt.PyJWKClient):
    def fetch_data(self) -> Any:
        whom, deadline = "the issuer", Deadline.after(KEYS_TIME_S)
        status, _, body = exchanged(
            lambda: send("GET", self.uri, deadline), whom, deadline, MOST_BYTES
        )
        if status != HTTPStatus.OK:
            raise refusal(whom, status)
        return parsed(body, whom)


class JwksTokens:
    """Verifies signature, issuer, audience and time; reads `sub`, namespaces, groups, load."""

    def __init__(
        self, issuer: str, audience: str, jwks_url: str, claims: Claims | None = None
    ) -> None:
        self._issuer = issuer
        self._audience = audience
        self._claims = claims or Claims()
        self._keys = _PublishedKeys(
            jwks_url,
            cache_keys=True,
            lifespan=KEYS_LIFESPAN_S,
            cooldown_duration=UNKNOWN_LIFESPAN_S,
        )

    def caller(self, token: str) -> Caller | None:
        """Return the caller, None for an invalid token; `Unavailable` if no keys were read."""
        try:
            claims = jwt.decode(
                token,
                self._keys.get_signing_key_from_jwt(token),
                algorithms=list(ALGORITHMS),
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={
                    "require": ["exp", "iss", "sub", self._claims.audience],
                    "verify_aud": False,
                },
            )
        except DocsToKGError as exc:
            raise Unavailable("the issuer's keys cannot be fetched") from exc
        except (jwt.PyJWTError, ValueError):
            return None
        if self._audience not in (_names(claims, self._claims.audience) or ()):
            return None
        named = ("namespaces", "groups", "load")
        lists: dict[str, Any] = {
            name: _names(claims, getattr(self._claims, name)) for name in named
        }
        if None in lists.values() or not isinstance(claims["sub"], str):
            return None
        return Caller(sub=claims["sub"], **lists)


def _names(claims: dict[str, Any], claim: str) -> tuple[str, ...] | None:
    value = claims.get(claim, [])
    if isinstance(value, str):
        return tuple(value.split())
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return tuple(value)
