"""SigV4 for managed and serverless OpenSearch: a server recomputes every signature it receives."""

import datetime
import gzip
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.server import Auth
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.contracts.records import FactRecord, Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.errors import Misconfigured
from tests.signatures import KEY, REGION, SECRET, TOKEN, Signed, problem

SPACE = Scope(namespace="n")
QUESTION = ChannelQuery(channel="bm25", size=5, text="Größe \u2028 of \U0001f600 seizures")
HIT = {
    "took": 1,
    "timed_out": False,
    "_shards": {"failed": 0},
    "hits": {"hits": [{"fields": {"uuid": ["u"]}, "_score": 1.5}]},
}
ANSWERS: dict[str, Any] = {
    "/_msearch": {"responses": [HIT]},
    "/docstokg/_mget": {"docs": [{"_id": "u", "found": False}]},
    "/docstokg-facts/_bulk": {
        "items": [{"index": {"_id": "n/f é", "status": 201, "result": "created"}}]
    },
}


@dataclass
class Seen:
    """What the server made of the requests it got."""

    service: str
    secret: str = SECRET
    problems: list[str] = field(default_factory=list)
    signed: list[str] = field(default_factory=list)
    encodings: set[str | None] = field(default_factory=set)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for 127.0.0.1 that nobody else trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return public, private


@dataclass
class Domain:
    """A loopback server behind SigV4, over TLS as AWS has it, and how to reach it."""

    url: str
    seen: Seen

    def named(self, auth: Auth) -> dict[str, Any]:
        return {"url": self.url, "auth": auth}


@pytest.fixture(params=["sigv4-es", "sigv4-aoss"])
def auth(request: pytest.FixtureRequest) -> Auth:
    chosen: Auth = request.param
    return chosen


@pytest.fixture
def domain(auth: Auth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Domain]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    seen = Seen(auth.removeprefix("sigv4-"))

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(headers.get("content-length", 0)))
            url = f"https://{headers['host']}{self.path}"
            signed = Signed(seen.service, seen.secret)
            wrong = problem(signed, self.command, url, headers, body)
            encoding = headers.get("content-encoding")
            plain = gzip.decompress(body) if encoding == "gzip" else body
            for line in plain.decode("utf-8").splitlines():
                json.loads(line)
            seen.encodings.add(encoding)
            seen.signed.append(self.path.partition("?")[0])
            if wrong:
                seen.problems.append(wrong)
            answer = {"message": wrong} if wrong else ANSWERS[seen.signed[-1]]
            text = json.dumps(answer).encode()
            self.send_response(403 if wrong else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    public, private = certificate(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        monkeypatch.setenv("SSL_CERT_FILE", str(public))
        yield Domain(f"https://127.0.0.1:{server.server_port}", seen)
    finally:
        server.shutdown()
        server.server_close()


def test_searching_reading_and_writing_are_signed(domain: Domain, auth: Auth) -> None:
    index = OpenSearchIndex(**domain.named(auth))
    writer = OpenSearchWriter(**domain.named(auth))
    try:
        (found,) = index.search([QUESTION], SPACE, 10.0)
        assert [hit.uuid for hit in found.hits] == ["u"]
        assert index.get(["u"], SPACE, 10.0).missing == ("u",)
        fact = FactRecord(id="f é", namespace="n", text="ü", source="a", type="b", target="c")
        writer.put_facts([fact])
    finally:
        index.close()
        writer.close()
    assert domain.seen.problems == []
    assert domain.seen.signed == list(ANSWERS)
    assert domain.seen.encodings == {"gzip"}, "the signature is over what is sent"


def test_a_refused_signature_is_a_setting_to_mend(domain: Domain, auth: Auth) -> None:
    domain.seen.secret = "another secret"
    index = OpenSearchIndex(**domain.named(auth))
    try:
        with pytest.raises(Misconfigured):
            index.search([QUESTION], SPACE, 10.0)
    finally:
        index.close()
    assert domain.seen.problems == ["the signature is another"]


def test_a_region_is_needed(monkeypatch: pytest.MonkeyPatch, auth: Auth, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(Misconfigured, match="AWS_DEFAULT_REGION"):
        OpenSearchIndex(url="https://127.0.0.1:1", auth=auth)
