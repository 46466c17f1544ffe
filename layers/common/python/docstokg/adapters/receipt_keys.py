"""Ed25519 receipt keys: PEM or key sets (RFC 8037); canonical JSON (RFC 8785)."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Self

import rfc8785
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

from docstokg.contracts import Json
from docstokg.domain import base64url
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
    def read(cls, text: str, source: str) -> Self:
        """Read PEM blocks or a key set; raise `Misconfigured`, without the text, if invalid."""
        try:
            if text.lstrip().startswith("{"):
                rows = json.loads(text)["keys"]
                return cls(None, [Ed25519PublicKey.from_public_bytes(_raw(row)) for row in rows])
            blocks = [(block[1], block[0].encode()) for block in _BLOCK.finditer(text)]
            private = [load_pem_private_key(b, None) for kind, b in blocks if "PRIVATE" in kind]
            public = [load_pem_public_key(b) for kind, b in blocks if "PUBLIC" in kind]
            if len(private) > 1 or not (
                all(isinstance(key, Ed25519PrivateKey) for key in private)
                and all(isinstance(key, Ed25519PublicKey) for key in public)
            ):
                raise ValueError("another kind or number of keys")
            return cls(next(iter(private), None), public)  # type: ignore[arg-type]
        except (
            *(KeyError, RecursionError, StopIteration, TypeError),
            *(UnsupportedAlgorithm, ValueError),
        ):
            raise Misconfigured(
                f"{source}: no Ed25519 key; `docstokg receipt-key FILE` makes one"
            ) from None

    @classmethod
    def signing(cls, text: str, source: str) -> Self:
        """Read a private key, and public ones; raise `Misconfigured` without a private one."""
        keys = cls.read(text, source)
        if keys._private is None:
            raise Misconfigured(f"{source}: no private key; `docstokg receipt-key FILE` makes one")
        return keys

    def sign(self, body: Json) -> str:
        """Return the signature of a response in base64.

        Raise AssertionError without a private key, ValueError as `signed_part`.
        """
        assert self._private is not None
        return base64.b64encode(self._private.sign(signed_part(body))).decode()

    def is_signed(self, key_id: str, body: Json, signature: str) -> bool:
        """Return whether key `key_id` made this signature of a response, in canonical base64.

        Raise KeyError for an unknown key, ValueError as `signed_part`.
        """
        signed = signed_part(body)
        try:
            raw = base64.b64decode(signature, validate=True)
            self.public[key_id].verify(raw, signed)
        except (InvalidSignature, ValueError):
            return False
        return base64.b64encode(raw).decode() == signature

    def key_set(self) -> Json:
        """Return the public keys as a JSON Web Key Set."""
        use = {"alg": "EdDSA", "use": "sig"}
        return {"keys": [{**_jwk(key), "kid": name, **use} for name, key in self.public.items()]}

    def private_pem(self) -> str:
        """Return the signing key as PEM, not encrypted."""
        assert self._private is not None
        form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self._private.private_bytes(*form).decode()


def signed_part(body: Json) -> bytes:
    """Return the canonical JSON of a response without `diagnostics` and the receipt's signature.

    Raise KeyError (null: AttributeError) without a receipt, ValueError for values without canonical
    JSON: NaN, infinity, whole numbers of 2**53 or more, lone surrogates.
    """
    receipt = {name: value for name, value in body["receipt"].items() if name != "signature"}
    covered = {name: value for name, value in body.items() if name != "diagnostics"}
    return rfc8785.dumps({**covered, "receipt": receipt})


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
    return {"crv": "Ed25519", "kty": "OKP", "x": base64url.encode(key.public_bytes_raw())}


def _raw(row: dict[str, str]) -> bytes:
    if (row["kty"], row["crv"]) != ("OKP", "Ed25519"):
        raise ValueError("another kind of key")
    return base64.urlsafe_b64decode(row["x"] + "=")


def _thumbprint(key: Ed25519PublicKey) -> str:
    return base64url.encode(hashlib.sha256(rfc8785.dumps(_jwk(key))).digest())
