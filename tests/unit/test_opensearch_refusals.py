"""A failing server is not treated as empty: its chunks are never taken for absent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg.adapters.opensearch.documents import OpenSearchRegister
from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.adapters.sqlite.index import SqliteIndex
from docstokg.contracts.records import IndexInfo
from docstokg.errors import Timeout, Unavailable
from docstokg.loading.pipeline import info_before
from tests.loopback import Loopback, answering

SHARD = {"type": "no_shard_available_action_exception", "reason": "No shard available"}


@pytest.fixture
def server() -> Iterator[Loopback]:
    with answering() as loopback:
        yield loopback


@pytest.fixture
def index(server: Loopback) -> Iterator[OpenSearchIndex]:
    opened = OpenSearchIndex(url=server.url, auth="basic")
    yield opened
    opened.close()


def test_only_a_missing_index_counts_as_empty(
    server: Loopback, index: OpenSearchIndex, tmp_path: Path
) -> None:
    server.status, server.answer = 404, {"status": 404}
    assert info_before(index) == IndexInfo()
    assert info_before(SqliteIndex(tmp_path / "none.sqlite")) == IndexInfo()
    (tmp_path / "empty.sqlite").touch()
    assert info_before(SqliteIndex(tmp_path / "empty.sqlite")) == IndexInfo()
    server.status = 503
    with pytest.raises(Unavailable):
        info_before(index)


def test_an_unreadable_file_is_not_an_empty_index(tmp_path: Path) -> None:
    broken = tmp_path / "store.sqlite"
    broken.write_bytes(b"no database at all, but bytes" * 400)
    with pytest.raises(Unavailable):
        info_before(SqliteIndex(broken))


def test_a_hanging_server_is_not_an_empty_index(
    server: Loopback, index: OpenSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.waits.clear()
    monkeypatch.setattr("docstokg.loading.pipeline.READ_S", 0.3)
    with pytest.raises((Timeout, Unavailable)):
        info_before(index)
    server.waits.set()


def test_a_failing_shard_is_not_an_absent_document(
    server: Loopback,
) -> None:
    """Otherwise it would be written as new, and its outdated facts would stay."""
    stored = {
        "_id": "a",
        "found": True,
        "_source": {"namespace": "default", "fingerprint": "f", "record": "{}"},
    }
    server.answer = {"docs": [stored, {"_id": "b", "error": SHARD}]}
    writer = OpenSearchWriter(url=server.url, auth="basic")
    register = OpenSearchRegister(url=server.url, auth="basic")
    try:
        with pytest.raises(Unavailable, match="No shard available"):
            writer.fingerprints("default", ["a", "b"])
        with pytest.raises(Unavailable, match="No shard available"):
            register.find("default", ["a", "b"])
        server.answer = {"docs": [stored, {"_id": "b", "found": False}]}
        assert writer.fingerprints("default", ["a", "b"]) == {"a": "f"}
    finally:
        writer.close()
        register.close()
