"""What is said of a request that was refused before any work was done for it."""

import hashlib

from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.response import Problem
from docstokg.observability import Telemetry

FORBIDDEN = 403
REFUSED = (400, FORBIDDEN, 404, 413)
CODES_TOLD = 5


def caller_hash(caller: str) -> str:
    """Name a caller where names must not stand: logs, the shared table."""
    return hashlib.sha256(caller.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def tell_refusal(telemetry: Telemetry, envelope: Envelope, reply: Reply) -> None:
    """Count and log a reply that refuses a request; for any other do nothing.

    What it asked is not told. Who was refused something that exists is audited: the caller's
    hash, never the name.
    """
    if reply.statusCode not in REFUSED:
        return
    problem = Problem.model_validate_json(reply.body)
    status = str(problem.status)
    telemetry.count("rag_requests_total", route=envelope.route, status=status)
    telemetry.count("rag_refused_requests_total", code=problem.code)
    refused = problem.status == FORBIDDEN
    telemetry.log(
        "WARNING" if refused else "INFO",
        "audit" if refused else "refused",
        request_id=envelope.request_id,
        route=envelope.route,
        status=problem.status,
        code=problem.code,
        caller=caller_hash(envelope.caller.sub),
        errors=[error.code for error in problem.errors[:CODES_TOLD]],
    )
