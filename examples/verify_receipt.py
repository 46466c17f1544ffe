"""Prove a saved DocsToKG response by its receipt, without the docstokg package and its store.

    pip install cryptography rfc8785
    python verify_receipt.py RESPONSE.json KEYS.json

KEYS.json is the server's /.well-known/docstokg-keys.json, fetched from an address that you trust.
Exit code 0: proven; 1: not proven, with the failed part; 2: not readable.
"""

import base64
import hashlib
import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def key_of(keys: dict[str, Any], key_id: str) -> Ed25519PublicKey | None:
    """Return the key whose RFC 7638 thumbprint is `key_id`, None if the set has none."""
    for key in keys["keys"]:
        thumbprint = rfc8785.dumps({name: key[name] for name in ("crv", "kty", "x")})
        digest = base64.urlsafe_b64encode(hashlib.sha256(thumbprint).digest()).decode().rstrip("=")
        if digest == key_id:
            public = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(key["x"] + "="))
            if any(is_signed(public, b"\1" + bytes(63), bytes([n])) for n in range(64)):
                raise ValueError("a key of small order proves any text")
            return public
    return None


def is_signed(key: Ed25519PublicKey, signature: bytes, data: bytes) -> bool:
    """Return whether the key made this signature of the data."""
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def faults(response: dict[str, Any], keys: dict[str, Any]) -> Iterator[str]:
    """Yield the parts of a response that its receipt does not prove.

    A malformed response or key set raises LookupError, TypeError or ValueError.
    """
    receipt = response["receipt"]
    texts = {text["uuid"]: text for text in receipt["texts"]}
    yield from signature_faults(response, keys)
    for rank, citation in enumerate(response["citations"], 1):
        if citation["rank"] != rank:
            yield f"citation {rank}: has rank {citation['rank']}"
        namespace = citation["namespace"] or response["metadata"]["namespace"]
        named = f"docstokg:{namespace}/{citation['chunk_id']}"
        if citation["uuid"] != str(uuid.uuid5(uuid.NAMESPACE_URL, named)):
            yield f"citation {rank}: uuid is not that of {citation['chunk_id']}"
        yield from text_faults(citation, texts.get(citation["uuid"]))
    yield from answer_faults(response, texts)


def signature_faults(response: dict[str, Any], keys: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with version, key and signature; raise ValueError if it is not base64."""
    receipt = {name: value for name, value in response["receipt"].items() if name != "signature"}
    signed = {name: value for name, value in response.items() if name != "diagnostics"}
    if receipt["version"] != 1:
        yield f"receipt: unknown version {receipt['version']!r}"
    if (key := key_of(keys, receipt["key_id"])) is None:
        yield f"key: {receipt['key_id']} is not in the key set; use the set of that time"
        return
    raw = base64.b64decode(response["receipt"]["signature"], validate=True)
    if base64.b64encode(raw).decode() != response["receipt"]["signature"]:
        yield "signature: not canonical base64"
    if not is_signed(key, raw, rfc8785.dumps({**signed, "receipt": receipt})):
        yield "signature: the response or the receipt was changed"


def text_faults(citation: dict[str, Any], source: dict[str, Any] | None) -> Iterator[str]:
    """Yield what the passage in the receipt does not prove: hash, snippet, offsets."""
    label = f"citation {citation['rank']}"
    if source is None:
        yield f"{label}: no text in the receipt"
        return
    text, begin = source["text"], source["char_start"] or 0
    if hashlib.sha256(text.encode("utf-8")).hexdigest() != citation["text_sha256"]:
        yield f"{label}: hash"
    start, end = citation["char_start"] - begin, citation["char_end"] - begin
    if start < 0 or text[start:end] != citation["snippet"]:
        yield f"{label}: snippet or offsets"


def answer_faults(response: dict[str, Any], texts: dict[str, Any]) -> Iterator[str]:
    """Yield markers without a citation, and supported sentences' quotes in no cited passage."""
    ranked = {citation["rank"]: citation["uuid"] for citation in response["citations"]}
    answer = response["answer"]
    for marker in re.finditer(r"\[(\d+)\]", answer):
        if int(marker[1]) not in ranked:
            yield f"answer: {marker[0]} refers to no citation"
    for sentence in (response["grounding"] or {"sentences": []})["sentences"]:
        quote = sentence["quote"]
        cited = [texts[ranked[rank]]["text"] for rank in sentence["citations"] if rank in ranked]
        if quote and sentence["verdict"] == "supported" and not any(quote in t for t in cited):
            yield f"sentence {answer[sentence['start'] : sentence['end']]!r}: quote"


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise ValueError for a repeated name."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return dict(pairs)


def main() -> int:
    """Check the files of the command line; return the exit code."""
    try:
        response, keys = (
            json.loads(Path(name).read_text("utf-8"), object_pairs_hook=unique)
            for name in sys.argv[1:3]
        )
        failed = list(faults(response, keys))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as wrong:
        print(f"not readable: {type(wrong).__name__}: {wrong}", file=sys.stderr)
        return 2
    for fault in failed:
        print(f"not proven: {fault}")
    if not failed:
        print(f"proven: {len(response['citations'])} citations; `diagnostics` is not signed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
