"""SigV4 as AWS checks it: from the bytes on the wire alone, every signature recomputed."""

import datetime
import hashlib
from dataclasses import dataclass

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token+="
REGION = "eu-central-1"


@dataclass(frozen=True)
class Signed:
    """How requests have to be signed; `payload`: the hash of the body is a signed header."""

    service: str
    secret: str = SECRET
    payload: bool = True


def problem(
    signed: Signed, method: str, url: str, headers: dict[str, str], body: bytes
) -> str | None:
    """Check one request, its header names in lower case; None when it is right."""
    scheme, _, told = headers.get("authorization", "").partition(" ")
    parts = dict(part.strip().split("=", 1) for part in told.split(",") if "=" in part)
    if scheme != "AWS4-HMAC-SHA256" or parts.keys() != {"Credential", "SignedHeaders", "Signature"}:
        return f"no signature: {headers.get('authorization')}"
    stamp = headers["x-amz-date"]
    if parts["Credential"] != f"{KEY}/{stamp[:8]}/{REGION}/{signed.service}/aws4_request":
        return f"signed for {parts['Credential']}"
    names = parts["SignedHeaders"].split(";")
    needed = ["host", "x-amz-date", "x-amz-security-token"]
    for name in [*needed, "x-amz-content-sha256"] if signed.payload else needed:
        if name not in names:
            return f"{name} is not signed"
    if signed.payload and headers["x-amz-content-sha256"] != hashlib.sha256(body).hexdigest():
        return "the payload's hash is another"
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.strptime(
        stamp, "%Y%m%dT%H%M%SZ"
    ).replace(tzinfo=datetime.UTC)
    if abs(age.total_seconds()) > 300:
        return f"signed {age} ago"
    request = AWSRequest(method, url, data=body, headers={name: headers[name] for name in names})
    request.context["timestamp"] = stamp
    signer = SigV4Auth(Credentials(KEY, signed.secret, TOKEN), signed.service, REGION)
    string = signer.string_to_sign(request, signer.canonical_request(request))
    if signer.signature(string, request) != parts["Signature"]:
        return "the signature is another"
    return None
