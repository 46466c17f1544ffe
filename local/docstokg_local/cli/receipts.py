"""Signed receipts: keys and offline proof."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from docstokg.contracts import Json
from docstokg.errors import LoadError
from docstokg_local.cli.options import argument, text_file
from docstokg_local.cli.printing import echo, print_json, printable_json

NEXT = """{file} contains the private key: keep it secret, and back it up.
Next: set DOCSTOKG_RECEIPT_KEY={file}
for `docstokg serve` and `docstokg ask --receipt FILE`. Give the key set above to those who verify;
the server also publishes it, at /.well-known/docstokg-keys.json. To replace a key, make a new file
and append the old public key: openssl pkey -in OLD -pubout >> NEW"""
NO_RECEIPT = "the response has no receipt: use `ask --receipt FILE`, or `receipt: true` over HTTP"
COVERED = (
    "The signature covers the whole response but `diagnostics` (degraded reasons, providers, "
    "channels, times), which prove nothing."
)
NO_KEY = (
    "--offline needs --key PUB: the key set of the server that signed, saved from "
    "/.well-known/docstokg-keys.json, or its public key as PEM"
)


def receipt_key(
    file: Annotated[Path, argument("FILE", "Key file (PEM); if it exists, it is only read.")],
) -> None:
    """Make a signing key for receipts, and print its public key set.

    FILE is readable by its owner only.
    """
    from docstokg.adapters.key_file import text_at
    from docstokg.adapters.receipt_keys import ReceiptKeys

    if file.exists():
        keys = ReceiptKeys.signing(text_at(str(file)), str(file))
        print_json(keys.key_set())
        return
    keys = ReceiptKeys.make()
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(keys.private_pem())
    except OSError as broken:
        raise LoadError(f"{file}: {broken.strerror}") from broken
    print_json(keys.key_set())
    echo(NEXT.format(file=file.resolve()), err=True)


def save_receipt(file: Path, body: Json) -> None:
    """Write a response; raise `LoadError` if it has no receipt or the file cannot be written."""
    if body["receipt"] is None:
        reasons = [text for text in body["warnings"] if text.startswith("There is no receipt")]
        raise LoadError(f"{file} was not written. {' '.join(reasons)}")
    try:
        file.write_text(printable_json(body) + "\n", encoding="utf-8")
    except OSError as broken:
        raise LoadError(f"{file}: {broken.strerror}") from broken


def verify_offline(
    body: Json, key: Path | None, configured: Callable[[], Any]
) -> tuple[list[Any], int]:
    """Prove a response by its receipt; return findings and number of proven citations.

    `key`: file with public keys; None: the `configured` ones. An invalid response is a finding.
    Raises `LoadError` without a receipt or for an unreadable file, `typer.BadParameter` without
    keys.
    """
    from docstokg.adapters.receipt_keys import ReceiptKeys
    from docstokg_local.cli.verify import Finding, check_response, read_response

    keys = ReceiptKeys.read(text_file(key), str(key)) if key else configured()
    if keys is None:
        raise typer.BadParameter(NO_KEY)
    if not isinstance(body.get("receipt"), dict):
        raise LoadError(NO_RECEIPT)
    findings = [Finding(*fault) for fault in _signature_faults(body, keys)]
    try:
        response = read_response(body)
    except LoadError as wrong:
        return [*findings, Finding("$", str(wrong))], 0
    # The graph's passages are not in a receipt; the signature covers the graph's paths.
    citations = [cited.model_copy(update={"kg_evidence": None}) for cited in response.citations]
    plain = response.model_copy(update={"citations": tuple(citations)})
    faults, proven = check_response(plain, _chunks(response))
    return [*findings, *faults], 0 if findings else proven


def _signature_faults(body: Json, keys: Any) -> Iterable[tuple[str, str]]:
    receipt = body["receipt"]
    key_id = str(receipt.get("key_id"))
    if receipt.get("version") != 1:
        yield "$.receipt.version", "is unknown: a newer docstokg made it, or it was changed"
    if key_id not in keys.public:
        names = ", ".join(keys.public)
        yield (
            "$.receipt.key_id",
            (
                f"is {key_id}, the known keys are {names}; if the server changed its key, pass the "
                "key set of the time of the response"
            ),
        )
        return
    try:
        is_signed = keys.is_signed(key_id, body, str(receipt.get("signature")))
    except (ValueError, RecursionError) as wrong:
        yield "$", f"has no canonical JSON, so it was changed: {wrong}"
        return
    if not is_signed:
        yield "$.receipt.signature", "does not fit: the response or the receipt was changed"


def _chunks(response: Any) -> Any:
    from docstokg.contracts.records import StoredChunk
    from docstokg_local.cli.verify import SourceChunk

    texts = {text.uuid: text for text in response.receipt.texts}
    names = ("uuid", "chunk_id", "doc_id", "document_name", "page", "section", "uri", "anchor")
    chunks = {}
    for citation in response.citations:
        if source := texts.get(citation.uuid):
            fields = {name: getattr(citation, name) for name in (*names, "text_sha256")}
            fields |= {"text": source.text, "char_start": source.char_start, "run_id": ""}
            stored = StoredChunk(**fields)
            chunks[citation.uuid] = SourceChunk(citation.chunk_id, stored)
    return chunks
