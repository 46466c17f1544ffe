"""SigV4 for managed and serverless OpenSearch: a server recomputes every signature it receives."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.server import Auth
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.contracts.records import FactRecord, Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured
from tests.loopback import Loopback
from tests.signatures import KEY, SECRET, Signed, be_a_role, certificate, problem

SPACE = Scope(namespace="n")
QUESTION = ChannelQuery(channel="bm25", size=5, text="Größe \u2028 of \U0001f600 seizures")
HIT = {
    "took": 1,
    "timed_out": False,
    "_shards": {"total": 1, "failed": 0},
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
    """Requests that a server checked: problems, signed paths and encodings."""

    service: str
    secret: str = SECRET
    problems: list[str] = field(default_factory=list)
    signed: list[str] = field(default_factory=list)
    encodings: set[str | None] = field(default_factory=set)


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
    be_a_role(monkeypatch)
    seen = Seen(auth.removeprefix("sigv4-"))

    def answer(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, Any]:
        headers = {name.lower(): value for name, value in request.headers.items()}
        url = f"https://{headers['host']}{request.path}"
        wrong = problem(Signed(seen.service, seen.secret), "POST", url, headers, body)
        encoding = headers.get("content-encoding")
        plain = gzip.decompress(body) if encoding == "gzip" else body
        for line in plain.decode("utf-8").splitlines():
            json.loads(line)
        seen.encodings.add(encoding)
        seen.signed.append(request.path.partition("?")[0])
        if wrong:
            seen.problems.append(wrong)
        return (403, {"message": wrong}) if wrong else (200, ANSWERS[seen.signed[-1]])

    public, private = certificate(tmp_path)
    server = Loopback(answer, tls=(public, private))
    try:
        monkeypatch.setenv("SSL_CERT_FILE", str(public))
        yield Domain(server.url, seen)
    finally:
        server.close()


def test_searching_reading_and_writing_are_signed(domain: Domain, auth: Auth) -> None:
    index = OpenSearchIndex(**domain.named(auth))
    writer = OpenSearchWriter(**domain.named(auth))
    try:
        (result,) = index.search([QUESTION], SPACE, Deadline.after(10.0))
        assert [hit.uuid for hit in result.hits] == ["u"]
        assert index.get(["u"], SPACE, Deadline.after(10.0)).missing == ("u",)
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
            index.search([QUESTION], SPACE, Deadline.after(10.0))
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
