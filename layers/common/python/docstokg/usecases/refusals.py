"""Refused requests."""

import json
from collections.abc import Mapping
from typing import Any

from docstokg.contracts.envelope import Envelope, Reply
from docstokg.domain.identity import text_sha256
from docstokg.observability import Telemetry

FORBIDDEN = 403
REFUSED = (400, FORBIDDEN, 404, 413)
CODES_TOLD = 5


def caller_hash(caller: str) -> str:
    """Return 16 hex digits of the SHA-256 of a caller's name."""
    return text_sha256(caller)[:16]


def tell_refusal(telemetry: Telemetry, envelope: Envelope, reply: Reply) -> None:
    """Count and log a refusal (400, 403, 404, 413); ignore other replies.

    Its content is not logged; a 403 is audited with the caller's hash.
    """
    if reply.statusCode not in REFUSED:
        return
    code, errors = _codes(json.loads(reply.body))
    status = str(reply.statusCode)
    telemetry.count("rag_requests_total", route=envelope.route, status=status)
    telemetry.count("rag_refused_requests_total", code=code)
    refused = reply.statusCode == FORBIDDEN
    telemetry.log(
        "WARNING" if refused else "INFO",
        "audit" if refused else "refused",
        request_id=envelope.request_id,
        route=envelope.route,
        status=reply.statusCode,
        code=code,
        caller=caller_hash(envelope.caller.sub),
        errors=errors[:CODES_TOLD],
    )


def _codes(body: Mapping[str, Any]) -> tuple[str, list[str]]:
    if "error" in body:
        return str(body["error"].get("code")), []
    return str(body["code"]), [str(error["code"]) for error in body["errors"]]
