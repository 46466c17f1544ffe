"""Replies in JSON; every error a caller sees has one shape: RFC 9457 problem details."""

from http import HTTPStatus

from pydantic import BaseModel

from docstokg.contracts.envelope import Reply
from docstokg.contracts.response import FieldProblem, Problem

PROBLEM_TYPE = "application/problem+json"


def json_reply(body: BaseModel, status: int = 200, **headers: str) -> Reply:
    """Write a message as the reply."""
    media = {"Content-Type": "application/json", **headers}
    return Reply(statusCode=status, body=body.model_dump_json(), headers=media)


def problem_reply(
    status: int,
    code: str,
    detail: str,
    request_id: str,
    errors: tuple[FieldProblem, ...] = (),
    headers: dict[str, str] | None = None,
) -> Reply:
    """Write a problem as a reply with its media type."""
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
