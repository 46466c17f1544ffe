"""A server without keys answers this machine's programs, and no page of another site."""

import gzip
import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from docstokg.settings import Settings
from docstokg_local.server.serving import application

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def served(small_store: Path, cache_dir: Path):
    """The application that `docstokg serve` runs, by a host name."""
    opened = []

    def make(host: str, **more) -> TestClient:
        url = f"sqlite:///{small_store}"
        settings = Settings(index_url=url, graph_url=url, cache_dir=str(cache_dir), **more)
        client = TestClient(application(settings, "127.0.0.1"), base_url=f"http://{host}")
        opened.append(client.__enter__())
        return client

    yield make
    for client in opened:
        client.__exit__(None, None, None)


def test_only_names_of_this_machine_are_answered(served) -> None:
    client = served("127.0.0.1:8080", hosts=("rag.example",))
    for good in (
        "localhost",
        "127.0.0.1",
        "[::1]:8080",
        "LOCALHOST:80",
        "rag.example:1",
        "127.1.2.3",
    ):
        assert client.get("/openapi.json", headers={"host": good}).status_code == 200, good
    for bad in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""):
        refused = client.get("/openapi.json", headers={"host": bad})
        assert (refused.status_code, refused.json()["code"]) == (403, "foreign_host"), bad
        assert refused.headers["content-type"] == "application/problem+json"


def test_a_foreign_page_gets_no_tools(served) -> None:
    client = served("localhost", hosts=("rag.example",))
    for origin in ("https://evil.example", "null", "http://[", "http://localhost.evil.example"):
        refused = client.post("/mcp", json=PING, headers={"origin": origin})
        assert (refused.status_code, refused.json()["code"]) == (403, "foreign_origin"), origin
    for origin in ("http://localhost:3000", "https://rag.example", "http://[::1]:5"):
        assert client.post("/mcp", json=PING, headers={"origin": origin}).status_code == 200


def test_with_keys_any_name_is_answered_and_a_bearer_is_a_key(served, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"K": {"sub": "k", "namespaces": ["*"], "groups": ["*"]}}))
    client = served("rag.example", auth="keys", keys_file=str(keys))
    ask = {"query": "What are seizures?"}

    def status(**headers: str) -> int:
        return client.post("/v1/search", json=ask, headers=headers).status_code

    assert status(**{"X-Api-Key": "K"}) == status(Authorization="Bearer K") == 200
    assert status(Authorization="bearer  K") == 200
    for wrong in ("Bearer", "Bearer k", "Basic K", "K", "Bearer K x"):
        assert status(Authorization=wrong) == 401, wrong
    refused = client.post("/v1/search", json=ask)
    assert refused.headers["www-authenticate"] == "Bearer"


def test_what_is_over_a_kilobyte_is_compressed_where_it_may_be(served) -> None:
    client = served("localhost")
    packed = {"accept-encoding": "gzip"}
    asked = {"json": {"query": "What are seizures?"}, "headers": packed}
    with client.stream("POST", "/v1/search", **asked) as response:
        raw = b"".join(response.iter_raw())
        assert response.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(raw))["citations"]
    assert len(raw) < len(gzip.decompress(raw)) / 2
    plain = client.get("/openapi.json", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    short = client.get("/no-such-path", headers=packed)
    assert "content-encoding" not in short.headers
