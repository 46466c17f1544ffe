"""A file of a model arrives whole, from where its fetch broke off, or not at all."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import override

import pytest

from docstokg.errors import Unavailable, WrongAnswer
from docstokg_local.cli.model_fetching import BLOCK, fetch_file
from tests.loopback import Quiet
from tests.model_server import listening

CONTENT = bytes(range(256)) * 20_000
HASH = hashlib.sha256(CONTENT).hexdigest()


class Dropping(Quiet):
    """Sends on, then drops every connection after half of the file; knows ranges."""

    protocol_version = "HTTP/1.0"
    begun: list[int] = []

    @override
    def do_GET(self) -> None:
        if self.path == "/latest/model.onnx":
            self.send_response(302)
            self.send_header("Location", "/x/model.onnx?download=1")
            self.end_headers()
            return
        range_header = self.headers.get("Range", "bytes=0-")
        begin = int(range_header.removeprefix("bytes=").rstrip("-"))
        self.begun.append(begin)
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(CONTENT) - begin))
        self.end_headers()
        self.wfile.write(CONTENT[begin:][: len(CONTENT) // 2])


@pytest.fixture
def url() -> Iterator[str]:
    Dropping.begun.clear()
    with listening(Dropping) as port:
        yield f"http://127.0.0.1:{port}/latest/model.onnx"


def test_a_fetch_resumes_where_it_was_broken_off(url: str, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(
            Unavailable, match=r"run the command again to continue, or copy the file .*onnx$"
        ):
            fetch_file(url, HASH, tmp_path / "new")
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.onnx.part"]
    assert fetch_file(url, HASH.upper(), tmp_path / "new").read_bytes() == CONTENT
    half = len(CONTENT) // 2
    assert half - BLOCK < Dropping.begun[1] <= half < Dropping.begun[2] < len(CONTENT)
    fetch_file(url, HASH, tmp_path / "new")  # it is there: nobody is asked
    assert len(Dropping.begun) == 3


def test_wrong_files_are_dropped_and_missing_networks_reported(url: str, tmp_path: Path) -> None:
    (tmp_path / "model.onnx.part").write_bytes(b"x" * (len(CONTENT) - 5))
    with pytest.raises(WrongAnswer, match="does not have the given SHA-256"):
        fetch_file(url, HASH, tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(Unavailable, match=r"MaxRetryError.*copy the file"):
        fetch_file("http://127.0.0.1:9/model.onnx", HASH, tmp_path)
