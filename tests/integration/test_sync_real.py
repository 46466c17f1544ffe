"""OpenSearch and Neo4j: sync ends in a fresh load, two loaders mix nothing, a gone folder stays."""

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg.errors import LoadError
from docstokg.loading.context import LoadOptions, LoadReport, Stores
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.transfer.exporting import content_digest
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.builders import settings_at
from tests.contract.real import both_stores
from tests.faults.editions import Reader, loaders, write_editions  # noqa: F401 - a fixture
from tests.faults.load_processes import LoadProcesses
from tests.services import SERVICES

# Both servers start within the first test, and on a busy machine that alone takes minutes.
pytestmark = [*SERVICES, pytest.mark.timeout(1200)]
NS = "default"
PLAIN = {"embed_provider": "none", "sparse": "none", "names": "rule", "kg_enabled": False}


@pytest.fixture
def settings(cache_dir: Path) -> Iterator[Settings]:
    with both_stores(**PLAIN, cache_dir=str(cache_dir)) as settings:
        yield settings


def embedded(store: Path, cache_dir: Path) -> Stores:
    store.parent.mkdir(exist_ok=True)
    return stores_of(Wiring(settings_at(store, cache_dir=cache_dir, **PLAIN)), embed=False)


def loaded(stores: Stores, *folders: Path, sync: bool = False) -> LoadReport:
    """Load as the command line does where nobody can be asked."""
    return load(folders, LoadOptions(NS, embed=False, sync=sync), stores, RejectLog())


def test_sync_equals_a_fresh_load_except_unmounted_folders(
    settings: Settings, tmp_path: Path, cache_dir: Path
) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    for place in (home / "inner", other):
        place.mkdir(parents=True)
    for n in range(14):
        (home / f"f{n}.md").write_text(f"# Zebra {n}\n\nZebra {n} follows Zebra {n // 2}.\n")
    (home / "inner" / "page.html").write_text("<main><h1>Otters</h1><p>It dives.</p></main>")
    (other / "kept.md").write_text("Not of this folder.")
    wiring = Wiring(settings)
    real = stores_of(wiring, embed=False)
    loaded(real, home, other)

    (home / "f1.md").unlink()
    (home / "f2.md").rename(home / "inner" / "renamed.md")
    (home / "f3.md").write_text("# Zebra 3\n\nIt is a Quagga now.\n")
    (home / "new.md").write_text("# Okapi\n\nAn Okapi is new here.\n")
    assert loaded(real, home, sync=True).gone == 2
    fresh = embedded(tmp_path / "fresh" / "store.sqlite", cache_dir)
    loaded(fresh, home, other)
    wanted = content_digest(fresh, NS)
    assert content_digest(real, NS) == wanted

    home.rename(tmp_path / "elsewhere")
    with pytest.raises(LoadError, match="does not exist"):
        loaded(real, home, sync=True)
    home.mkdir()
    report = loaded(real, home, sync=True)
    assert (report.gone, len(report.kept_back)) == (0, 15)
    assert content_digest(real, NS) == wanted
    wiring.close()


def test_two_loaders_at_once_never_mix_a_document(
    settings: Settings,
    loaders: tuple[LoadProcesses, LoadProcesses],  # noqa: F811
    tmp_path: Path,
    cache_dir: Path,
) -> None:
    editions = write_editions(tmp_path, {1: 30, 2: 22})
    assert loaders[0].load(settings, editions[1]) == 0
    reader, chance, killed = Reader(settings), random.Random(9), []

    def runs(loader: LoadProcesses, order: tuple[int, ...]) -> None:
        """Load these editions, those below zero killed at some moment."""
        for edition in order:
            moment = chance.uniform(0, 2) if edition < 0 else None
            status = loader.load(settings, editions[abs(edition)], moment)
            killed.append(os.WIFSIGNALED(status))
            assert killed[-1] or status == 0

    with reader.reading():
        beside = threading.Thread(target=runs, args=(loaders[1], (2, -1)))
        beside.start()
        runs(loaders[0], (1, -2))
        beside.join()
        runs(loaders[0], (2,))
    reader.ask_questions()
    reader.close()
    assert not reader.mixed, reader.report()
    assert reader.reads > 3, reader.report()
    wiring = Wiring(settings)
    fresh = embedded(tmp_path / "fresh" / "store.sqlite", cache_dir)
    loaded(fresh, editions[2])
    assert content_digest(stores_of(wiring, embed=False), NS) == content_digest(fresh, NS)
    wiring.close()
