"""SigV4 as AWS checks it: from the bytes on the wire alone, every signature recomputed."""

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.builders import ran

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session/token+="
REGION = "eu-central-1"
ALWAYS = ("host", "x-amz-date")


def be_a_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the process the keys that `problem` expects."""
    for name, value in (
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", TOKEN),
        ("AWS_DEFAULT_REGION", REGION),
    ):
        monkeypatch.setenv(name, value)


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
    needed = [*ALWAYS, "x-amz-security-token", *["x-amz-content-sha256"] * signed.payload]
    try:
        signer_of({KEY: signed.secret}, signed.service, (method, url, headers, body), needed)
    except ValueError as error:
        return str(error)
    return None


def signer_of(
    secrets: Mapping[str, str],
    service: str,
    request: tuple[str, str, Mapping[str, str], bytes],
    needed: Sequence[str],
) -> str:
    """The key id that signed a request for a service; ValueError when its signature is wrong."""
    method, url, headers, body = request
    scheme, _, fields = headers.get("authorization", "").partition(" ")
    parts = dict(part.strip().split("=", 1) for part in fields.split(",") if "=" in part)
    if scheme != "AWS4-HMAC-SHA256" or parts.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise ValueError(f"no signature: {headers.get('authorization')}")
    key, _, scope = parts["Credential"].partition("/")
    stamp = headers["x-amz-date"]
    if key not in secrets or scope != f"{stamp[:8]}/{REGION}/{service}/aws4_request":
        raise ValueError(f"signed for {parts['Credential']}")
    names = parts["SignedHeaders"].split(";")
    if missing := set(needed) - set(names):
        raise ValueError(f"{min(missing)} is not signed")
    digest = headers.get("x-amz-content-sha256")
    if "x-amz-content-sha256" in needed and digest != hashlib.sha256(body).hexdigest():
        raise ValueError("the payload's hash is another")
    then = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    if abs((age := datetime.datetime.now(datetime.UTC) - then).total_seconds()) > 300:
        raise ValueError(f"signed {age} ago")
    again = AWSRequest(method, url, data=body, headers={name: headers[name] for name in names})
    again.context["timestamp"] = stamp
    signer = SigV4Auth(Credentials(key, secrets[key]), service, REGION)
    string = signer.string_to_sign(again, signer.canonical_request(again))
    if signer.signature(string, again) != parts["Signature"]:
        raise ValueError("the signature is another")
    return key


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that nobody else trusts, and its key."""
    public, private = folder / "certificate.pem", folder / "key.pem"
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1"
    names = "-subj /CN=loopback -addext subjectAltName=IP:127.0.0.1"
    files = ("-keyout", private, "-out", public)
    ran(*request.split(), *names.split(), *files, check=True)
    return public, private
