"""A gateway in little: the page's function under a stage, the API of a laptop behind it."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docstokg_functions.page.page import FILES, SIGN_IN, VIEWER, SignIn, reply
from tests.builders import keyed
from tests.model_server import listening

PATHS = (*FILES, *VIEWER, SIGN_IN)


def behind_keys(server_for: Any, folder: Path) -> str:
    """Start a laptop's server that knows the key `k` alone; give its address."""
    return str(server_for(**keyed(folder, {"k": {}}))).rstrip("/")


class Quiet(BaseHTTPRequestHandler):
    """Answers whole bodies, and says nothing at the terminal."""

    def send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def gateway(
    behind: str, admits: Callable[[dict[str, str]], bool], sign_in: SignIn | None = None
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Return the page's address with its stage, and the requests behind it: path and headers.

    `admits`: the authoriser, over the headers by their small names.
    """
    heard: list[dict[str, str]] = []

    class Gateway(Quiet):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            inner = path.removeprefix("/live").rstrip("/") or "/"
            if inner in PATHS:
                got = reply(inner, path, sign_in)
                self.send(got["statusCode"], got["headers"], got["body"].encode())
            else:
                self._forward(None)

        def do_POST(self) -> None:
            self._forward(self.rfile.read(int(self.headers["Content-Length"])))

        def _forward(self, body: bytes | None) -> None:
            assert self.path.startswith("/live/"), self.path
            sent = {name.lower(): value for name, value in self.headers.items()}
            heard.append({"path": self.path, **sent})
            passed = {"Content-Type": "application/json"} if body is not None else {}
            # The authoriser reads the token, the usage plan the key; the laptop knows keys only.
            if admits(sent):
                passed["X-Api-Key"] = "k"
            request = urllib.request.Request(behind + self.path[5:], body, passed)
            try:
                with urllib.request.urlopen(request) as answer:
                    kind = {"Content-Type": answer.headers["Content-Type"]}
                    self.send(answer.status, kind, answer.read())
            except urllib.error.HTTPError as error:
                kind = {"Content-Type": error.headers["Content-Type"]}
                self.send(error.code, kind, error.read())

    with listening(Gateway) as port:
        yield f"http://127.0.0.1:{port}/live", heard
