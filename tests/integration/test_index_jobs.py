"""A snapshot brought back on a real server: what was lost is found again, and loading goes on."""

import hashlib
from pathlib import Path

import pytest

from docstokg.adapters.opensearch.index import OpenSearchIndex
from docstokg.adapters.opensearch.server import Server
from docstokg.adapters.opensearch.writer import OpenSearchWriter
from docstokg.contracts.records import ChunkRecord, Scope
from docstokg.errors import Misconfigured
from docstokg_local.cli.index_jobs import Snapshots
from tests.jvm.servers import Engine
from tests.services import SERVICES, own_home, start_own

pytestmark = [*SERVICES, pytest.mark.timeout(600)]
SPACE = Scope(namespace="kept")


def chunk(number: int) -> ChunkRecord:
    text = f"Passage {number} about seizures."
    return ChunkRecord(
        uuid=f"u{number}",
        chunk_id=f"c{number}",
        doc_id="d",
        namespace="kept",
        text=text,
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        run_id="run",
    )


def test_what_a_snapshot_holds_comes_back(tmp_path: Path) -> None:
    with own_home(Engine.OPENSEARCH) as home:
        snapshots_folder = home / "snapshots"
        snapshots_folder.mkdir()
        snapshots_folder.chmod(0o777)
        endpoint = start_own(Engine.OPENSEARCH, home, extra={"path.repo": str(snapshots_folder)})
        at = {"url": endpoint.url, "user": endpoint.user, "password": endpoint.password}
        writer, server = OpenSearchWriter(name="kept", **at), Server(**at)
        reader = OpenSearchIndex(name="kept", **at)
        try:
            writer.open_load("run", None, None, None)
            writer.put([(chunk(1), "one"), (chunk(2), "two")])
            jobs = Snapshots(server, "kept")
            jobs.register({"type": "fs", "settings": {"location": str(snapshots_folder)}})
            with pytest.raises(Misconfigured, match="open or unfinished"):
                jobs.take("early")
            writer.close_load()
            jobs.take("monday")
            assert jobs.names() == ["monday"]
            writer.delete("kept", None)
            writer.close_load()
            assert reader.get(["u1"], SPACE, 30).missing == ("u1",)
            restored = jobs.restore("monday")
            assert len(restored) == 2
            assert set(reader.get(["u1", "u2"], SPACE, 30).chunks) == {"u1", "u2"}
            # Aliases moved whole: a rebuild, and another load, find one index behind each.
            assert writer.rebuild() != restored
            writer.open_load("again", None, None, None)
            writer.put([(chunk(3), "three")])
            writer.close_load()
            assert set(reader.get(["u1", "u3"], SPACE, 30).chunks) == {"u1", "u3"}
        finally:
            reader.close()
            writer.close()
            server.close()
