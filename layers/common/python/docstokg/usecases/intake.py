"""Request validation."""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.model import wrong_in_words
from docstokg.contracts.response import FieldProblem
from docstokg.contracts.routes import MAX_BODY_BYTES, MAX_DOCUMENTS_BYTES
from docstokg.contracts.state import Failure
from docstokg.ports import SearchIndex
from docstokg.usecases.problems import problem_reply

if TYPE_CHECKING:
    from docstokg.usecases.run import Begin  # functions without calls do not load it

MAX_ERRORS = 200


def decode_body(body_b64: str, request_id: str, max_bytes: int = MAX_BODY_BYTES) -> bytes | Reply:
    """Return the decoded body, or the reply that refuses it (400, 413: over `max_bytes`)."""
    try:
        body = base64.b64decode(body_b64, validate=True)
    except (binascii.Error, ValueError):
        return problem_reply(400, "invalid_body", "The body is not valid base64.", request_id)
    if len(body) > max_bytes:
        return problem_reply(413, "body_too_large", too_large(max_bytes), request_id)
    return body


def too_large(max_bytes: int) -> str:
    """Return the message for a body of more than `max_bytes`."""
    size = f"{max_bytes // 1024} KiB" if max_bytes < 1 << 20 else f"{max_bytes >> 20} MiB"
    hint = (
        " Load larger documents with `docstokg load`." if max_bytes == MAX_DOCUMENTS_BYTES else ""
    )
    return f"The body is over {size}.{hint}"


def parse[Message: BaseModel](
    body: bytes, model: type[Message]
) -> tuple[Message | None, list[FieldProblem]]:
    """Parse JSON; return (message, []), or None and all errors, each with its JSON path."""
    try:
        return model.model_validate_json(body), []
    except ValidationError as exc:
        return None, [
            FieldProblem(
                path=json_path(error["loc"]),
                code=error["type"],
                message=wrong_in_words(error),
            )
            for error in exc.errors(include_url=False, include_input=False, include_context=False)
        ]


def parse_body[Message: BaseModel](
    envelope: Envelope, model: type[Message], max_bytes: int = MAX_BODY_BYTES
) -> Message | Reply:
    """Parse an envelope's body as `model`, or return the reply that refuses it (400, 413)."""
    body = decode_body(envelope.body_b64, envelope.request_id, max_bytes)
    if isinstance(body, Reply):
        return body
    message, errors = parse(body, model)
    return invalid(errors, envelope.request_id) if message is None else message


def namespace_of(
    envelope: Envelope, named: str | None, index: SearchIndex, begin: "Begin"
) -> str | Reply:
    """Return the namespace of a request as `namespaces_of` does."""
    chosen = namespaces_of(envelope, (named,) if named else (), index, begin)
    return chosen if isinstance(chosen, Reply) else chosen[0]


def namespaces_of(
    envelope: Envelope, requested: Sequence[str], index: SearchIndex, begin: "Begin"
) -> tuple[str, ...] | Reply:
    """Return the namespaces of a request, or the reply that refuses it (400, 403).

    Without requested ones, the result is `Call.chosen_namespace`, in a call that `begin` creates.
    """
    caller, names = envelope.caller, tuple(requested)
    if not names:
        chosen = begin(envelope.request_id, caller.scope("")).chosen_namespace(caller, index)
        if isinstance(chosen, Failure):
            return problem_reply(chosen.status, chosen.code, chosen.detail, envelope.request_id)
        names = (chosen,)
    return not_granted(envelope, *names) or names


def not_granted(envelope: Envelope, *namespaces: str) -> Reply | None:
    """Return a 403 reply if the caller may not read one of the namespaces, else None."""
    for name in namespaces:
        if not envelope.caller.may_read(name):
            detail = f"Namespace {name!r} is not granted to this caller."
            return problem_reply(403, "namespace_not_granted", detail, envelope.request_id)
    return None


def invalid(errors: list[FieldProblem], request_id: str) -> Reply:
    """Return a 400 reply with the first 200 errors of a request."""
    plural = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    detail = f"The request has {plural}; nothing was executed."
    return problem_reply(400, "invalid_request", detail, request_id, tuple(errors[:MAX_ERRORS]))


def json_path(location: tuple[int | str, ...]) -> str:
    """Return a location as a JSON path: ("budget", "max_chunks") becomes `$.budget.max_chunks`."""
    parts = []
    for part in location:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif part == "[key]":
            parts.append("~")
        elif part.isidentifier():
            parts.append(f".{part}")
        else:
            readable = part.encode("utf-8", "replace").decode("utf-8")
            parts.append(f"[{json.dumps(readable, ensure_ascii=False)}]")
    return "$" + "".join(parts)


def field_of(message: object, *path: str) -> Any:
    """Return a field of nested objects, or None if it is missing."""
    for key in path:
        message = message.get(key) if isinstance(message, dict) else None
    return message
