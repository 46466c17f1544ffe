"""Bearer tokens: policy and caller."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

from docstokg.contracts.envelope import Caller

Verify = Callable[[str], Caller | None]
SCHEME = "bearer "
# The gateway allows 64 KiB of context in all; a larger caller is an error.
MAX_CALLER_BYTES = 16 * 1024
NOBODY = "nobody"


def authorize(event: Mapping[str, Any], verify: Verify) -> dict[str, Any]:
    """Return the policy for a REQUEST authorizer event.

    Deny without a valid token, or for a caller over 16 KiB. It covers all routes. The context is
    base64 of {sub, namespaces, groups, load}.
    """
    token = _token(event.get("headers") or {})
    caller = verify(token) if token else None
    encoded = "" if caller is None else encode_caller(caller)
    # `arn:aws:execute-api:R:A:API/STAGE/METHOD/...` without the method and path.
    stage = "/".join([*str(event["methodArn"]).split("/")[:2], "*"])
    if caller is None or len(encoded) > MAX_CALLER_BYTES:
        return _policy("Deny", NOBODY, stage)
    return _policy("Allow", caller.sub, stage) | {"context": {"caller": encoded}}


def _policy(effect: str, principal: str, stage: str) -> dict[str, Any]:
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": stage}
    return {
        "principalId": principal,
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
    }


def encode_caller(caller: Caller) -> str:
    """Return the caller as base64 of ASCII JSON without apostrophes."""
    text = json.dumps(caller.model_dump(mode="json"), separators=(",", ":"))
    # The gateway's escaping would break at an apostrophe, and its context holds no lists.
    return base64.b64encode(text.replace("'", "\\u0027").encode("ascii")).decode("ascii")


def _token(headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        if name.lower() == "authorization" and value.lower().startswith(SCHEME):
            return value[len(SCHEME) :].strip()
    return ""
