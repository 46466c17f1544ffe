"""Loads side by side, killed or not: no reader ever gets two editions of one document at once."""

import os
import random
import threading
import time
from pathlib import Path

from docstokg.settings import Settings
from tests.builders import settings_at
from tests.embedded_store import PLAIN
from tests.faults.editions import Reader, loaders, write_editions  # noqa: F401 - a fixture
from tests.faults.load_processes import LoadProcesses
from tests.faults.test_killed_load import digest


def plain(store: Path) -> Settings:
    settings = {"names": "rule", "kg_enabled": False, "cache_dir": store.parent / "cache"}
    return settings_at(store, **PLAIN, **settings)


def test_simultaneous_and_killed_loaders_never_mix_a_document(
    loaders: tuple[LoadProcesses, LoadProcesses],  # noqa: F811
    tmp_path: Path,
) -> None:
    editions = write_editions(tmp_path)
    store, fresh = tmp_path / "store.sqlite", tmp_path / "fresh" / "store.sqlite"
    fresh.parent.mkdir()
    begun = time.monotonic()
    assert loaders[0].load(plain(store), editions[1]) == 0
    seconds = time.monotonic() - begun
    reader = Reader(plain(store))
    chance = random.Random(7)
    killed = 0

    def load(loader: LoadProcesses, order: tuple[int, ...]) -> None:
        nonlocal killed
        for edition in order:
            if edition < 0:
                status = loader.load(plain(store), editions[-edition], chance.uniform(0, seconds))
                killed += os.WIFSIGNALED(status)
            else:
                assert loader.load(plain(store), editions[edition]) == 0

    with reader.reading():
        other = threading.Thread(target=load, args=(loaders[1], (2, -1, 2, -2)))
        other.start()
        load(loaders[0], (1, -2, 1, -1))
        other.join()
        assert loaders[0].load(plain(store), editions[2]) == 0
    reader.ask_questions()
    reader.close()
    assert not reader.mixed, reader.report()
    assert reader.editions == {"edition1", "edition2"}, reader.report()
    assert reader.reads > 30, reader.report()
    assert reader.answers >= 1
    assert killed >= 1
    assert loaders[0].load(plain(fresh), editions[2]) == 0
    assert digest(store) == digest(fresh)
