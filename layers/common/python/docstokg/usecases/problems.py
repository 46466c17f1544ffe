"""Replies and problem details (RFC 9457)."""

from collections.abc import Callable
from http import HTTPStatus

from pydantic import BaseModel

from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.response import FieldProblem, Problem
from docstokg.errors import DocsToKGError, QuotaExceeded, Timeout, Unavailable, cause
from docstokg.observability import Telemetry

JSON_TYPE, PROBLEM_TYPE = "application/json", "application/problem+json"
FAILURES: tuple[tuple[type[DocsToKGError], int, str, str], ...] = (
    (QuotaExceeded, 429, "too_many_requests", "Try again later."),
    (Timeout, 504, "workflow_timeout", "It ran out of time."),
    (Unavailable, 503, "unavailable", "The service cannot be reached."),
    (DocsToKGError, 500, "internal_error", "The request could not be completed."),
)


def json_reply(body: BaseModel, status: int = 200, **headers: str) -> Reply:
    """Return a message as a JSON reply; `headers`: more headers, named exactly so."""
    media = {"Content-Type": JSON_TYPE, **headers}
    return Reply(statusCode=status, body=body.model_dump_json(), headers=media)


def problem_reply(
    status: int,
    code: str,
    detail: str,
    request_id: str,
    errors: tuple[FieldProblem, ...] = (),
    headers: dict[str, str] | None = None,
) -> Reply:
    """Return a problem reply with its media type; raise ValueError for an unknown status."""
    problem = Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        code=code,
        detail=detail,
        request_id=request_id,
        errors=errors,
    )
    return Reply(
        statusCode=status,
        body=problem.model_dump_json(),
        headers={"Content-Type": PROBLEM_TYPE, **(headers or {})},
    )


def replied(run: Callable[[Envelope], Reply], envelope: Envelope, telemetry: Telemetry) -> Reply:
    """Return the reply of `run`; log a DocsToKGError and return a problem (429, 500, 503, 504)."""
    try:
        return run(envelope)
    except DocsToKGError as error:
        fields = {"request_id": envelope.request_id, "route": envelope.route, **cause(error)}
        telemetry.log("ERROR", "no_reply", **fields)
        problem = next(row[1:] for row in FAILURES if isinstance(error, row[0]))
        return problem_reply(*problem, envelope.request_id)
