"""API Gateway events as envelopes."""

import base64
import json
from typing import Any

from docstokg.contracts.envelope import Caller, Envelope, Reply
from docstokg.contracts.routes import MAX_BODY_BYTES
from docstokg.usecases.problems import problem_reply


def edge_of(event: dict[str, Any]) -> Any:
    """Return the stage settings: `namespaces` of IAM callers, and response `headers`."""
    return json.loads(base64.urlsafe_b64decode(event["stageVariables"]["edge"]))


def envelope_of(event: dict[str, Any], namespaces: list[str]) -> Envelope | Reply:
    """Return the envelope, or a 415 reply unless Content-Type is `application/json`, body or not.

    `namespaces`: of IAM callers.
    """
    context = event["requestContext"]
    named = {name.lower(): value for name, value in event["headers"].items()}
    if named.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        detail = "The body must be application/json."
        return problem_reply(415, "unsupported_media_type", detail, context["requestId"])
    if signed_in := (context.get("authorizer") or {}).get("caller"):
        caller = Caller.model_validate_json(base64.b64decode(signed_in))
    else:
        arn = context["identity"]["userArn"]
        role = "/".join(arn.split("/")[:2])  # without the session name
        caller = Caller(sub=role if ":assumed-role/" in arn else arn, namespaces=tuple(namespaces))
    body = (event.get("body") or "").encode("utf-8", "surrogatepass")
    # One byte over the limit is enough for `validate` to refuse it.
    return Envelope.of("stream", context["requestId"], caller, body[: MAX_BODY_BYTES + 1])
