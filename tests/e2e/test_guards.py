"""A server without keys answers this machine's programs, and no page of another site."""

import gzip
import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from docstokg.errors import Misconfigured
from docstokg.settings import Settings
from docstokg_local.server.serving import application
from tests.builders import answer_request, keyed, refusal, settings_at

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def served(small_store: Path, cache_dir: Path):
    """The application that `docstokg serve` runs, by a host name."""
    with ExitStack() as opened:

        def make(host: str = "localhost", **overrides) -> TestClient:
            settings = settings_at(small_store, cache_dir=cache_dir, **overrides)
            client = TestClient(application(settings, "127.0.0.1"), base_url=f"http://{host}")
            return opened.enter_context(client)

        yield make


def test_only_names_of_this_machine_are_answered(served) -> None:
    client = served("127.0.0.1:8080", hosts=("rag.example",))
    for good in [
        "localhost",
        "127.0.0.1",
        "[::1]:8080",
        "LOCALHOST:80",
        "rag.example:1",
        "127.1.2.3",
    ]:
        assert client.get("/openapi.json", headers={"host": good}).status_code == 200, good
    for bad in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""):
        refused = client.get("/openapi.json", headers={"host": bad})
        assert refusal(refused) == (403, "foreign_host"), bad
        assert refused.headers["content-type"] == "application/problem+json"


def test_an_escaped_path_is_not_found(served) -> None:
    client = served()
    assert client.get("/v1/namespaces").status_code == 200
    for path in ("/v1%2fnamespaces", "/v1/name%73paces"):
        assert client.get(path).status_code == 404, path


def test_a_foreign_page_gets_no_tools(served) -> None:
    client = served(hosts=("rag.example",))
    for origin in ("https://evil.example", "null", "http://[", "http://localhost.evil.example"):
        refused = client.post("/mcp", json=PING, headers={"origin": origin})
        assert refusal(refused) == (403, "foreign_origin"), origin
    for origin in ("http://localhost:3000", "https://rag.example", "http://[::1]:5"):
        assert client.post("/mcp", json=PING, headers={"origin": origin}).status_code == 200


PAGE = "https://app.example"
EVENTS = {"accept": "text/event-stream"}
CALLS = [
    ("GET", "/v1/models", None, {}),
    ("POST", "/v1/search", {"query": "What are seizures?"}, {}),
    ("POST", "/v1/answer", answer_request("What are seizures?"), EVENTS),
    ("POST", "/v1/chat/completions", {"model": "none"}, {}),
    ("POST", "/mcp", PING, {}),
    ("GET", "/v1/nowhere", None, {}),
    ("DELETE", "/v1/jobs/none", None, {}),
]


def preflight(client, path: str, method: str, origin: str = PAGE):
    requested = {
        "method": method,
        "headers": "authorization,content-type,mcp-method",
        "private-network": "true",
    }
    headers = {f"access-control-request-{name}": value for name, value in requested.items()}
    return client.options(path, headers={"origin": origin, **headers})


@pytest.mark.parametrize("listed", [(PAGE, "http://other.example:5"), ("*",)])
def test_pages_of_listed_origins_may_call(served, listed) -> None:
    client = served(cors_origins=listed)
    allowed_origin = "*" if listed == ("*",) else PAGE
    for method, path, body, headers in CALLS:
        permission = preflight(client, path, method)
        assert permission.status_code == 200
        assert permission.headers["access-control-allow-origin"] == allowed_origin
        assert "mcp-method" in permission.headers["access-control-allow-headers"]
        reply = client.request(method, path, json=body, headers={"origin": PAGE, **headers})
        if method == "DELETE" and allowed_origin == "*":  # no page changes documents without a key
            assert refusal(reply) == (403, "foreign_origin")
        else:
            assert reply.status_code != 403
        assert reply.headers["access-control-allow-origin"] == allowed_origin
        assert "X-Docstokg-Warning" in reply.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in {*reply.headers, *permission.headers}
        if headers == EVENTS:
            assert reply.headers["content-type"].startswith("text/event-stream")
    if allowed_origin != "*":
        refused = preflight(client, "/mcp", "POST", "https://evil.example")
        assert refused.status_code == 400
        assert "access-control-allow-private-network" not in refused.headers
        reply = client.post("/mcp", json=PING, headers={"origin": "https://evil.example"})
        assert reply.status_code == 403
        assert "access-control-allow-origin" not in reply.headers


def test_other_origins_may_not_call_without_the_setting(served) -> None:
    client = served()
    assert preflight(client, "/v1/search", "POST").status_code == 405
    reply = client.post("/v1/search", json={"query": "What?"}, headers={"origin": PAGE})
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize("origin", ["https://app.example/", "app.example", "https://*/x"])
def test_an_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(Misconfigured, match="DOCSTOKG_CORS_ORIGINS"):
        Settings.from_environment({"DOCSTOKG_CORS_ORIGINS": origin})


def test_with_keys_any_host_and_bearer_tokens_work(served, tmp_path: Path) -> None:
    client = served("rag.example", **keyed(tmp_path, {"K": {}}))

    def reply_to(**headers: str):
        return client.post("/v1/search", json={"query": "What are seizures?"}, headers=headers)

    assert reply_to(**{"X-Api-Key": "K"}).status_code == 200
    for good in ("Bearer K", "bearer  K"):
        assert reply_to(Authorization=good).status_code == 200, good
    for wrong in ("Bearer", "Bearer k", "Basic K", "K", "Bearer K x"):
        assert reply_to(Authorization=wrong).status_code == 401, wrong
    refused = reply_to()
    assert refused.headers["www-authenticate"] == "Bearer"


def test_replies_over_a_kilobyte_are_compressed_if_accepted(served) -> None:
    client, packed = served(), {"accept-encoding": "gzip"}
    body = {"query": "What are seizures?"}
    with client.stream("POST", "/v1/search", json=body, headers=packed) as response:
        raw = b"".join(response.iter_raw())
        assert response.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(raw))["citations"]
    assert len(raw) < len(gzip.decompress(raw)) / 2
    plain = client.get("/openapi.json", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    short = client.get("/no-such-path", headers=packed)
    assert "content-encoding" not in short.headers
