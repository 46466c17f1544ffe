"""What only the real index does: it counts tokens, and refuses an index of another layout."""

import json
from pathlib import Path

import pytest

from docstokg.adapters.sqlite.index import SqliteIndex
from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
from docstokg.contracts.records import ChunkRecord, Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.errors import Misconfigured
from docstokg.ports import IndexWriter, SearchIndex
from tests.contract.real import opensearch_store, request
from tests.contract.test_search_index import chunk as index_chunk
from tests.jvm.servers import Engine
from tests.plans import soon
from tests.services import SERVICES, server

pytestmark = [*SERVICES]
SPACE = Scope(namespace="n")
QUESTION = ChannelQuery(channel="splade", size=10, weights={"common": 1.0, "rare.": 0.8})


def chunk(name: str, sparse: dict[str, float]) -> ChunkRecord:
    return index_chunk(name, f"text of {name}", namespace="n", sparse=sparse)


def load(writer: IndexWriter, run: str, *chunks: ChunkRecord) -> None:
    writer.open_load(run, None, None, "sparse-a")
    writer.put([(item, item.chunk_id) for item in chunks])
    writer.close_load()


def hit_ids(index: SearchIndex, *queries: ChannelQuery) -> list[str]:
    (result,) = index.search(queries, SPACE, soon())
    names = {
        item.uuid: item.chunk_id
        for item in index.get([hit.uuid for hit in result.hits], SPACE, soon()).chunks.values()
    }
    return [names[hit.uuid] for hit in result.hits]


def test_rare_tokens_weigh_more_as_in_embedded_indices(tmp_path: Path) -> None:
    common = [chunk(f"c{n}", {"common": 1.0 + n / 100}) for n in range(8)]
    first = [*common, chunk("r", {"rare.": 1.0})]
    embedded = SqliteIndex(tmp_path / "s.sqlite"), SqliteIndexWriter(tmp_path / "s.sqlite")
    with opensearch_store() as real:
        for index, writer in (embedded, real):
            load(writer, "1", *first)
            index.info(soon())
            assert hit_ids(index, QUESTION)[0] == "r"
            # Once the token is everywhere and the other is not, it is the other way round.
            load(writer, "2", *(chunk(f"more{n}", {"rare.": 0.5}) for n in range(60)))
            index.info(soon())
            assert hit_ids(index, QUESTION)[0] == "c7"
    for side in embedded:
        side.close()


def test_another_layout_is_refused_before_anything_is_written() -> None:
    with opensearch_store() as (_, writer):
        load(writer, "1", chunk("a", {}))
        url, name = server(Engine.OPENSEARCH).url, writer._name
        mapping = json.loads(request(url, "GET", f"/{name}/_mapping"))
        (noted,) = (index["mappings"]["_meta"] for index in mapping.values())
        request(url, "PUT", f"/{name}/_mapping", {"_meta": noted | {"docstokg": 1}})
        with pytest.raises(Misconfigured, match="layout 1"):
            writer.open_load("2", None, None, None)
