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


def authorize(
    event: Mapping[str, Any], verify: Verify, owners: Mapping[str, str]
) -> dict[str, Any]:
    """Return the policy for a REQUEST authorizer event.

    Deny without a valid token, or for a caller over 16 KiB. It covers all routes. The context is
    base64 of {sub, namespaces, groups, load}. `owners`: subject or group by API key; without a key
    of the caller, the gateway refuses metered routes.
    """
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    caller = verify(token) if (token := _token(headers.get("authorization", ""))) else None
    encoded = "" if caller is None else encode_caller(caller)
    # `arn:aws:execute-api:R:A:API/STAGE/METHOD/...` without the method and path.
    stage = "/".join([*str(event["methodArn"]).split("/")[:2], "*"])
    if caller is None or len(encoded) > MAX_CALLER_BYTES:
        return _policy("Deny", NOBODY, stage)
    key = headers.get("x-api-key", "")
    metered = {"usageIdentifierKey": key} if owners.get(key) in {caller.sub, *caller.groups} else {}
    return _policy("Allow", caller.sub, stage) | {"context": {"caller": encoded}} | metered


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


def _token(credential: str) -> str:
    return credential[len(SCHEME) :].strip() if credential.lower().startswith(SCHEME) else ""
