"""The page where its address has a stage in it, as deployed: every address is relative."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from functions.page.page import FILES, VIEWER, reply
from tests.e2e.browser import ask, launched

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("browser")]
PATHS = (*FILES, *VIEWER)


@pytest.fixture
def stage(server_for: Any, tmp_path: Path) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A gateway in little: the page's function under a stage, the API of a laptop behind it."""
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"k": {"sub": "k", "namespaces": ["*"], "groups": ["*"]}}))
    behind = server_for(auth="keys", keys_file=str(keys)).rstrip("/")
    heard: list[dict[str, str]] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            inner = path.removeprefix("/live").rstrip("/") or "/"
            if inner in PATHS:
                got = reply(inner, path)
                self._send(got["statusCode"], got["headers"], got["body"].encode())
            else:
                self._forward(None)

        def do_POST(self) -> None:
            self._forward(self.rfile.read(int(self.headers["Content-Length"])))

        def _forward(self, body: bytes | None) -> None:
            assert self.path.startswith("/live/"), self.path
            heard.append({"path": self.path, **{k.lower(): v for k, v in self.headers.items()}})
            passed = {"Content-Type": "application/json"} if body is not None else {}
            # The authoriser reads the token, the usage plan the key; the laptop knows keys only.
            if self.headers.get("Authorization") and self.headers.get("X-Api-Key"):
                passed["X-Api-Key"] = "k"
            asked = urllib.request.Request(behind + self.path[5:], body, passed)
            try:
                with urllib.request.urlopen(asked) as answer:
                    self._send(answer.status, {"Content-Type": "application/json"}, answer.read())
            except urllib.error.HTTPError as error:
                kind = {"Content-Type": error.headers["Content-Type"]}
                self._send(error.code, kind, error.read())

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/live", heard
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_browser_asks_with_token_and_key_below_the_stage(stage: Any) -> None:
    address, heard = stage
    with launched() as browser:
        page = browser.new_page()
        page.goto(address)
        assert page.url == f"{address}/"
        ask(page, "What are seizures?")
        assert "key" in page.locator("#problem").inner_text().lower()
        page.get_by_label("Token", exact=True).fill("header.claims.signature")
        page.get_by_label("API key", exact=True).fill("metered")
        ask(page, "What are seizures?")
        assert "[1]" in page.locator("#answer").inner_text()
        asked = next(one for one in reversed(heard) if one["path"].endswith("/v1/answer"))
        assert asked["authorization"] == "Bearer header.claims.signature"
        assert asked["x-api-key"] == "metered"
        shown = page.locator("#curl").inner_text()
        assert f"{address}/v1/answer" in shown and "signature" not in shown
        assert "Bearer $DOCSTOKG_TOKEN" in shown and "$DOCSTOKG_KEY" in shown


def test_the_reference_tries_requests_below_the_stage(stage: Any) -> None:
    address, heard = stage
    with launched() as browser:
        page = browser.new_page()
        page.goto(f"{address}/docs/")
        assert page.url == f"{address}/docs"
        # The list grows while it is read: a path is opened when the last one is there.
        page.locator('[data-path="/openapi.json"]').wait_for()
        page.locator('[data-path="/v1/health"]').click()
        page.get_by_role("button", name="Try it out").first.click()
        page.get_by_role("button", name="Execute").first.click()
        page.locator(".live-responses-table .response-col_status", has_text="200").wait_for()
    assert heard[-1]["path"] == "/live/v1/health"
