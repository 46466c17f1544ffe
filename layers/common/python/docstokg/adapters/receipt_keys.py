"""Ed25519 receipt keys: PEM or key sets (RFC 8037)."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any, Self

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from docstokg.domain.canonical_json import canonical_json
from docstokg.errors import Misconfigured

_BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----", re.DOTALL)
# Texts tried against a public key: one of small order passes all with probability (7/8)^64.
_FORGERIES = 64


class ReceiptKeys:
    """A signing key, if any, with further public keys."""

    def __init__(
        self, private: Ed25519PrivateKey | None, others: Iterable[Ed25519PublicKey] = ()
    ) -> None:
        self._private = private
        public = [*([private.public_key()] if private else ()), *others]
        if any(map(_is_weak, public)):
            raise ValueError("a key that proves any text")
        self.public = {_thumbprint(key): key for key in public}
        self.key_id = next(iter(self.public))

    @classmethod
    def make(cls) -> Self:
        """Return a new signing key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, text: str, where: str) -> Self:
        """Read PEM blocks or a key set; raise `Misconfigured`, without the text, if invalid."""
        try:
            if text.lstrip().startswith("{"):
                rows = json.loads(text)["keys"]
                return cls(None, [Ed25519PublicKey.from_public_bytes(_raw(row)) for row in rows])
            blocks = [(one[1], one[0].encode()) for one in _BLOCK.finditer(text)]
            private = [load_pem_private_key(b, None) for kind, b in blocks if "PRIVATE" in kind]
            public = [load_pem_public_key(b) for kind, b in blocks if "PUBLIC" in kind]
            if len(private) > 1 or not (
                all(isinstance(one, Ed25519PrivateKey) for one in private)
                and all(isinstance(one, Ed25519PublicKey) for one in public)
            ):
                raise ValueError("another kind or number of keys")
            return cls(next(iter(private), None), public)  # type: ignore[arg-type]
        except (
            *(KeyError, RecursionError, StopIteration, TypeError),
            *(UnsupportedAlgorithm, ValueError),
        ):
            raise Misconfigured(
                f"{where}: no Ed25519 key; `docstokg receipt-key FILE` makes one"
            ) from None

    @classmethod
    def signing(cls, text: str, where: str) -> Self:
        """Read a private key, and public ones; raise `Misconfigured` without a private one."""
        keys = cls.read(text, where)
        if keys._private is None:
            raise Misconfigured(f"{where}: no private key; `docstokg receipt-key FILE` makes one")
        return keys

    def sign(self, data: bytes) -> str:
        """Return the signature in base64; raise AssertionError without a private key."""
        assert self._private is not None
        return base64.b64encode(self._private.sign(data)).decode()

    def is_signed(self, key_id: str, data: bytes, signature: str) -> bool:
        """Return whether key `key_id` made this signature, in canonical base64.

        KeyError if unknown.
        """
        try:
            raw = base64.b64decode(signature, validate=True)
            self.public[key_id].verify(raw, data)
        except (InvalidSignature, ValueError):
            return False
        return base64.b64encode(raw).decode() == signature

    def key_set(self) -> dict[str, Any]:
        """Return the public keys as a JSON Web Key Set."""
        more = {"alg": "EdDSA", "use": "sig"}
        return {"keys": [{**_jwk(key), "kid": name, **more} for name, key in self.public.items()]}

    def private_pem(self) -> str:
        """Return the signing key as PEM, not encrypted."""
        assert self._private is not None
        form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self._private.private_bytes(*form).decode()


def _is_weak(key: Ed25519PublicKey) -> bool:
    """Return whether a key has small order: signature (identity, 0) then fits one text in eight."""
    for number in range(_FORGERIES):
        try:
            key.verify(b"\1" + bytes(63), bytes([number]))
        except InvalidSignature:
            continue
        return True
    return False


def _jwk(key: Ed25519PublicKey) -> dict[str, str]:
    x = base64.urlsafe_b64encode(key.public_bytes_raw()).decode().rstrip("=")
    return {"crv": "Ed25519", "kty": "OKP", "x": x}


def _raw(row: dict[str, str]) -> bytes:
    if (row["kty"], row["crv"]) != ("OKP", "Ed25519"):
        raise ValueError("another kind of key")
    return base64.urlsafe_b64decode(row["x"] + "=")


def _thumbprint(key: Ed25519PublicKey) -> str:
    digest = hashlib.sha256(canonical_json(_jwk(key))).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
