"""A namespace moves from the embedded store into OpenSearch and Neo4j, back, and stays itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg.loading.context import LoadOptions, Stores
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.transfer.export_file import load_export
from docstokg.loading.transfer.exporting import content_digest, export
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.builders import settings_at
from tests.conftest import CORPUS, write_corpus
from tests.contract.real import both_stores
from tests.services import SERVICES

pytestmark = [*SERVICES]
NS = "default"


@pytest.fixture
def real(cache_dir: Path) -> Iterator[Stores]:
    with both_stores(cache_dir=str(cache_dir)) as settings:
        wiring = Wiring(settings)
        yield stores_of(wiring)
        wiring.close()


def embedded(store: Path, cache_dir: Path) -> Stores:
    return stores_of(Wiring(settings_at(store, cache_dir=cache_dir)))


def test_there_and_back(real: Stores, tmp_path: Path, cache_dir: Path) -> None:
    folder = write_corpus(tmp_path / "corpus", CORPUS)
    (folder / "page.html").write_text("<main><h1>Otters</h1><p>The sea otter dives.</p></main>")
    local = embedded(tmp_path / "here.sqlite", cache_dir)
    load([folder], LoadOptions(NS), local, RejectLog())
    wanted = content_digest(local, NS)
    export(local, NS, tmp_path / "there.zip")

    rejects = RejectLog()
    load_export(tmp_path / "there.zip", NS, real, rejects)
    assert rejects.first == []
    assert content_digest(real, NS) == wanted
    assert load([folder], LoadOptions(NS), real, RejectLog()).written == 0
    assert content_digest(real, NS) == wanted

    export(real, NS, tmp_path / "back.zip")
    back = embedded(tmp_path / "back.sqlite", cache_dir)
    load_export(tmp_path / "back.zip", NS, back, rejects)
    assert rejects.first == []
    assert content_digest(back, NS) == wanted
