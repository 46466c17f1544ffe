"""A load killed at any moment and run again ends as if it had never been interrupted."""

import hashlib
import os
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from docstokg.domain.identity import text_sha256
from tests.builders import settings_at
from tests.embedded_store import NS, EmbeddedStore
from tests.faults.editions import write_editions
from tests.faults.load_processes import LoadProcesses, write_corpus

STORES, KILLS_EACH = 10, 2
ATTEMPTS = 40
FEWEST_COMMITS = 10


def digest(store: Path) -> str:
    """Digest the content of both stores."""
    return hashlib.sha256("\n".join(EmbeddedStore(store).content()).encode()).hexdigest()


def copy(source: Path, target: Path) -> Path:
    target.mkdir()
    for path in source.parent.glob("store.sqlite*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, target / path.name)
    return target / "store.sqlite"


@pytest.fixture
def processes() -> Iterator[LoadProcesses]:
    processes = LoadProcesses()
    yield processes
    processes.close()


def test_twenty_kills_leave_no_trace(processes: LoadProcesses, tmp_path: Path):
    old, new = write_corpus(tmp_path / "v1", 1), write_corpus(tmp_path / "v2", 2)
    base, fresh = (tmp_path / name / "store.sqlite" for name in ("base", "fresh"))
    for store in (base, fresh):
        store.parent.mkdir()
    assert processes.load(settings_at(base), old) == 0
    clean = {"fresh": fresh, "changed": copy(base, tmp_path / "changed")}
    wanted, seconds = {}, {}
    for kind, store in clean.items():
        begun = time.monotonic()
        assert processes.load(settings_at(store), new) == 0
        seconds[kind] = time.monotonic() - begun
        wanted[kind] = digest(store)
    assert wanted["fresh"] != digest(base)
    chance = random.Random(20)
    for number in range(STORES):
        kind = ("fresh", "changed")[number % 2]
        folder = tmp_path / f"kill{number}"

        def begin(kind: str = kind, folder: Path = folder) -> Path:
            """Make the store as it is before the load, whatever a load did to it."""
            shutil.rmtree(folder, ignore_errors=True)
            if kind == "changed":
                return copy(base, folder)
            folder.mkdir()
            return folder / "store.sqlite"

        store, killed, longest = begin(), 0, seconds[kind]
        for _ in range(ATTEMPTS):
            moment = chance.uniform(0, longest)
            status = processes.load(settings_at(store), new, moment)
            check_only_whole_chunks(store)
            if os.WIFSIGNALED(status):
                killed += 1
                if killed == KILLS_EACH:
                    break
                continue
            # The load was over before: it proves nothing, and no load takes longer than this.
            assert status == 0
            store, killed, longest = begin(), 0, moment
        assert killed == KILLS_EACH, f"store {number} ({kind}) was too fast to be killed"
        assert processes.load(settings_at(store), new) == 0
        assert digest(store) == wanted[kind], f"store {number} ({kind}) shows that it was killed"


def test_a_kill_after_any_commit_leaves_no_trace(processes: LoadProcesses, tmp_path: Path):
    """Back to the old edition, for the names that only the new one has would stay otherwise."""
    editions = write_editions(tmp_path, {1: 9, 2: 6})
    base = tmp_path / "base" / "store.sqlite"
    base.parent.mkdir()
    assert processes.load(settings_at(base), editions[2]) == 0
    wanted = digest(base)
    for commits in range(1, ATTEMPTS):
        store = copy(base, tmp_path / f"after{commits}")
        if not os.WIFSIGNALED(processes.load(settings_at(store), editions[1], commits=commits)):
            break
        check_only_whole_chunks(store)
        assert processes.load(settings_at(store), editions[2]) == 0
        assert digest(store) == wanted, f"shows that it was killed after commit {commits}"
    assert commits > FEWEST_COMMITS


def check_only_whole_chunks(store: Path) -> None:
    """Whatever was written is complete: hashes match, and the index can be read."""
    if not store.exists():
        return
    for chunk, _ in EmbeddedStore(store).stores.index_writer.stored_chunks(NS):
        assert text_sha256(chunk.text) == chunk.text_sha256
        assert chunk.sentences
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
