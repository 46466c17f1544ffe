"""A search server that is short of memory refuses a whole bulk; the load goes on when it can."""

from collections.abc import Iterator

import pytest

from docstokg.adapters.opensearch import writer as opensearch_writer
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.contracts.records import FactRecord
from docstokg.errors import QuotaExceeded
from tests.loopback import Loopback, answering

FACT = FactRecord(id="f", namespace="n", text="t", source="a", type="b", target="c")
DONE = {"items": [{"index": {"_id": "n/f", "status": 201, "result": "created"}}]}
FULL = {"error": {"type": "circuit_breaking_exception", "reason": "Data too large"}, "status": 429}


@pytest.fixture
def server() -> Iterator[Loopback]:
    """Return a server that refuses `status` requests, then accepts."""
    with answering() as server:
        server.status = 0
        server.reply = lambda *_: (429, FULL) if len(server.asked) <= server.status else (200, DONE)
        yield server


@pytest.fixture
def writer(server: Loopback) -> Iterator[OpenSearchWriter]:
    writer = OpenSearchWriter(url=server.url)
    yield writer
    writer.close()


def test_it_is_asked_again(server: Loopback, writer: OpenSearchWriter) -> None:
    server.status = 2
    writer.put_facts([FACT])
    assert len(server.asked) == 3
    assert len(set(server.asked)) == 1, "the same chunks, none lost, none added"


def test_it_is_not_asked_for_ever(
    server: Loopback, writer: OpenSearchWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opensearch_writer, "BULK_TRIES", 2)
    server.status = 99
    with pytest.raises(QuotaExceeded, match="Data too large"):
        writer.put_facts([FACT])
    assert len(server.asked) == 2
