"""The load generator counts what it heard, and the report says what was counted."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.load import Stage, line_of, seconds_of
from benchmarks.load_client import WHOLE, Generator, arguments, outcome
from benchmarks.plot import svg

DEGRADED = {"diagnostics": {"degraded_reasons": ["kg_timeout"]}}


class Answers(BaseHTTPRequestHandler):
    """Search is whole, answers are refused, health is well."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        refused = self.path == "/v1/answer"
        self._say(503 if refused else 200, {"code": "overloaded"} if refused else {})

    def do_GET(self) -> None:
        self._say(200, {})

    def _say(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("load", [["--clients", "3"], ["--rate", "40"]])
def test_every_request_is_heard_once(port: int, tmp_path: Path, load: list[str]) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "What is it?"}\n', "utf-8")
    generator = Generator(arguments([str(port), str(questions), "--seconds", "0.5", *load]))
    asyncio.run(generator.run())
    kinds = {(heard.route, heard.status, heard.outcome) for heard in generator.heard}
    assert kinds == {("search", 200, WHOLE), ("answer", 503, "overloaded"), ("health", 200, WHOLE)}
    if load[0] == "--rate":
        assert 19 <= len([h for h in generator.heard if h.route != "health"]) <= 21


def test_a_server_that_is_not_there_is_an_outcome(tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "What is it?"}\n', "utf-8")
    generator = Generator(arguments(["1", str(questions), "--seconds", "0.1"]))
    asyncio.run(generator.run())
    assert {heard.status for heard in generator.heard} == {0}


@pytest.mark.parametrize(
    ("status", "body", "named"),
    [
        (200, {}, WHOLE),
        (200, DEGRADED, "kg_timeout"),
        (504, {"code": "deadline_exceeded"}, "deadline_exceeded"),
    ],
)
def test_an_outcome_has_a_name(status: int, body: object, named: str) -> None:
    assert outcome(status, json.dumps(body).encode()) == named


def stage() -> Stage:
    rows = [
        (0.0, "search", 200, WHOLE, 100.0),
        (0.1, "answer", 200, "kg_timeout", 200.0),
        (0.2, "answer", 503, "overloaded", 5.0),
        (0.3, "search", 504, "deadline_exceeded", 3400.0),
        (0.4, "health", 200, WHOLE, 7.0),
    ]
    return Stage("8 clients", 10.0, rows, [(10.0, 5 << 20, 7, 9), (11.0, 6 << 20, 7, 9)], 0.1, 0.4, 0.0, 2.0)  # fmt: skip  # noqa: E501


def test_a_row_says_what_happened() -> None:
    cells = [cell.strip() for cell in line_of(stage(), 3.0).strip("|").split("|")]
    assert cells[:6] == ["8 clients", "1.0", "50%", "100 / 100 / 100", "1, 5", "1"]
    assert "1 x 504 deadline_exceeded" in cells[6]
    assert "1 x kg_timeout" in cells[6]
    assert cells[7:] == ["7", "100", "0", "5%", "6, 6", "7, 9"]


def test_the_plot_is_well_formed() -> None:
    assert len(list(seconds_of([stage()]))) == 2
    drawn = svg("a < b", {"ms": {"p50": [(0, 1), (1, 2)]}, "none": {"": []}}, {0.5: "8 & more"})
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
