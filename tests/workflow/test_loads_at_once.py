"""Loads into several namespaces of one store at once, a process each: none waits for another."""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from docstokg.adapters.sqlite.index_files import LoadLock
from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
from docstokg.contracts.records import Scope
from docstokg.domain.deadline import Deadline
from docstokg.loading.transfer.contents import digests
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from tests.contract.real import both_stores
from tests.services import SERVICES
from tests.unit.test_stages import Place, folder_of

NAMES = ("anna", "bert")
PROMISED_S = 10.0
LONGEST_WAIT_S = 300
LOADER = """
import sys
from pathlib import Path
from tests.workflow.ingest_process import place_in, run_machine
folder, name, source, *on_call = sys.argv[1:]
place = place_in(Path(folder), name)
if source == "bucket":
    print(run_machine(place, f"run-{name}").status)
    sys.exit()
if on_call:
    print("READY", flush=True)
    sys.stdin.readline()
place.load(Path(source))
print("SUCCEEDED")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "both").mkdir()
    return tmp_path / "both"


def sources(folder: Path) -> dict[str, Path]:
    """Folders with the same ids and other texts: a leak is a wrong text."""
    folders = {name: folder_of(folder / f"in-{name}", 40) for name in NAMES}
    for name, source in folders.items():
        for path in source.rglob("report*.md"):
            path.write_text(f"{path.read_text()}\nOnly {name.title()} of Secretburgh reads this.\n")
    return folders


def begun(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", LOADER, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def succeeds(process: "subprocess.Popen[str]") -> None:
    out, err = process.communicate(timeout=LONGEST_WAIT_S)
    assert out.split()[-1:] == ["SUCCEEDED"], out + err


def alone(folder: Path, name: str, source: Path) -> tuple[str, str, str]:
    """Digests of one load into a store of its own."""
    folder.mkdir()
    place = Place(folder, ns=name)
    place.load(source)
    return place.digest()


def every_text(settings: Settings, name: str) -> str:
    wiring = Wiring(settings)
    try:
        index = wiring.search_index()
        uuids = [chunk.uuid for chunk, _ in wiring.index_writer().stored_chunks(name)]
        chunks = index.get(uuids, Scope(namespace=name), Deadline.after(60.0)).chunks
        assert len(chunks) == len(uuids) > 40
        others = Scope(namespace=next(other for other in NAMES if other != name))
        assert not index.get(uuids, others, Deadline.after(60.0)).chunks
        return json.dumps([chunk.text for chunk in chunks.values()])
    finally:
        wiring.close()


def is_as_if_alone(
    places: dict[str, Place], tmp_path: Path, folders_by_name: dict[str, Path]
) -> None:
    for name, place in places.items():
        expected = alone(tmp_path / f"alone-{name}", name, folders_by_name[name])
        assert place.digest() == expected, name
        text = every_text(place.settings, name)
        assert f"Only {name.title()}" in text
        assert not [other for other in NAMES if other != name and f"Only {other.title()}" in text]


def test_two_laptop_loads_equal_separate_loads(folder: Path, tmp_path: Path) -> None:
    folders_by_name = sources(tmp_path)
    places = {name: Place(folder, ns=name) for name in NAMES}
    loads = [begun(folder, name, folders_by_name[name]) for name in NAMES]
    for load in loads:
        succeeds(load)
    is_as_if_alone(places, tmp_path, folders_by_name)


def test_open_load_delays_only_its_namespace(folder: Path, tmp_path: Path) -> None:
    folders_by_name = sources(tmp_path)
    store = folder / "store.sqlite"
    lock = LoadLock(store, "anna")
    lock.acquire(Deadline.after(0))
    waits = begun(folder, "anna", folders_by_name["anna"])
    try:
        succeeds(begun(folder, "bert", folders_by_name["bert"]))
        assert waits.poll() is None
        assert "anna" not in stored_namespaces(store)
    finally:
        lock.release()
    succeeds(waits)
    assert stored_namespaces(store) == {"anna", "bert"}


def stored_namespaces(store: Path) -> set[str]:
    with closing(sqlite3.connect(store)) as db:
        return {row[0] for row in db.execute("SELECT DISTINCT namespace FROM graph_chunks")}


def test_concurrent_loads_commit_alternately(folder: Path, tmp_path: Path) -> None:
    """The longest time in which a growing namespace gained nothing while both were loading."""
    store = folder / "store.sqlite"
    folders_by_name = {name: folder_of(tmp_path / f"in-{name}", 200) for name in NAMES}
    loads = [begun(folder, name, folders_by_name[name], "on-call") for name in NAMES]
    for load in loads:
        assert load.stdout.readline() == "READY\n"
    for load in loads:
        load.stdin.write("\n")
        load.stdin.flush()
    counts, since, longest = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0.0), 0.0
    while all(load.poll() is None for load in loads):
        time.sleep(0.1)
        for name, count in rows(store).items():
            if count != counts[name]:
                if counts[name]:
                    longest = max(longest, time.monotonic() - since[name])
                counts[name], since[name] = count, time.monotonic()
    for load in loads:
        succeeds(load)
    assert all(counts.values()), "both were loading"
    assert longest < PROMISED_S


def rows(store: Path) -> dict[str, int]:
    query = (
        "SELECT n.name, count(*) FROM index_rows r JOIN index_namespaces n ON n.id = r.ns"
        " GROUP BY n.name"
    )
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=0.1)) as db:
            return dict(db.execute(query).fetchall())
    except sqlite3.Error:
        return {}


def test_second_first_load_keeps_the_encoder(tmp_path: Path) -> None:
    first, second = (SqliteIndexWriter(tmp_path / "store.sqlite") for _ in range(2))
    first.open_load("one", "model-a", 8, None, "anna")
    second.open_load("two", "model-b", 4, None, "bert")
    first.close_load("anna")
    second.close_load("bert")
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as db:
        notes = dict(db.execute("SELECT key, value FROM index_meta").fetchall())
    assert (notes["embedding_model"], notes["space/bert"]) == ("model-a", "4 model-b")


def test_two_machine_runs_equal_separate_runs(folder: Path, tmp_path: Path) -> None:
    folders_by_name = sources(tmp_path)
    machine_runs(tmp_path, folder, folders_by_name, None)


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Settings]:
    folder = tmp_path / "real"
    folder.mkdir()
    with both_stores(ingest_url=f"file://{folder / 'bucket'}") as settings:
        (folder / "settings.json").write_text(settings.model_dump_json())
        yield settings


@pytest.mark.services
@SERVICES[1]
@SERVICES[2]
def test_two_machine_runs_into_real_stores(real: Settings, tmp_path: Path) -> None:
    machine_runs(tmp_path, tmp_path / "real", sources(tmp_path), real)


def machine_runs(
    tmp_path: Path, folder: Path, folders_by_name: dict[str, Path], settings: Settings | None
) -> None:
    places = {name: Place(folder, settings, ns=name) for name in NAMES}
    for name, place in places.items():
        place.upload(folders_by_name[name])
    for run in [begun(folder, name, "bucket") for name in NAMES]:
        succeeds(run)
    is_as_if_alone(places, tmp_path, folders_by_name)
    wiring = Wiring(places["anna"].settings)
    stores = wiring.index_writer(), wiring.graph_writer(), wiring.register()
    assert len({digests(*stores, [name]) for name in NAMES}) == 2
    wiring.close()
