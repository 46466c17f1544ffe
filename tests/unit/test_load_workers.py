"""`docstokg load --workers N`: other processes do the work, and nothing else is different."""

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from docstokg.errors import Unavailable
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.transfer.contents import graph_rows, index_rows
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading import stores as load_stores
from docstokg_local.loading.stores import stores_with_workers, workers_for
from docstokg_local.loading.workers import LoadProcesses
from tests.builders import eventually, settings_at
from tests.conftest import CORPUS, write_corpus
from tests.embedded_store import NS

pytestmark = pytest.mark.slow

TEXT = "# Otters\n\nThe sea otter lives near Monterey. It was described by Carl Linnaeus.\n"


def contents(folder: Path, path: Path, count: int) -> tuple[list[str], RejectLog]:
    settings = settings_at(path, cache_dir=str(path.parent / "cache"))
    wiring, rejects = Wiring(settings), RejectLog()
    with stores_with_workers(wiring, True, count) as stores:
        report = load([folder], LoadOptions(), stores, rejects)
        rows = [*index_rows(stores.index_writer, NS), *graph_rows(stores.graph_writer, NS)]
    wiring.close()
    assert report.chunks > len(CORPUS["chunks.jsonl"])
    assert {"reading", "names", "chunks"} <= report.stages.keys()
    return rows, rejects


def test_two_processes_load_equally(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path / "corpus", CORPUS)
    for number in range(6):
        (folder / f"otter-{number}.md").write_text(TEXT.replace("near", "near " * number))
    (folder / "broken.json").write_text("{", "utf-8")
    rows, rejects = {}, {}
    for count in (1, 2):
        place = tmp_path / str(count)
        place.mkdir()
        rows[count], rejects[count] = contents(folder, place / "store.sqlite", count)
    assert rows[1] == rows[2]
    assert rejects[1].first == rejects[2].first
    assert [Path(reject.file).name for reject in rejects[1].first] == ["broken.json"]


def test_killed_process_ends_load_with_reason(cache_dir: Path) -> None:
    wiring = Wiring(Settings(cache_dir=str(cache_dir)))
    processes = LoadProcesses(wiring.settings, 1)
    processes.serve(wiring)
    encoder = wiring.sparse_encoder()
    assert encoder is not None
    assert encoder.encode(["Carl Linnaeus was born in Sweden."], None)
    for process in multiprocessing.active_children():
        process.kill()
        process.join()
    with pytest.raises(Unavailable, match="a worker process of this load ended"):
        encoder.encode(["He died in Uppsala."], None)
    processes.close()


def test_processes_end_with_killed_load(cache_dir: Path) -> None:
    code = (
        "import multiprocessing, time\n"
        "from docstokg.settings import Settings\n"
        "from docstokg.wiring import Wiring\n"
        "from docstokg_local.loading.workers import LoadProcesses\n"
        f"wiring = Wiring(Settings(cache_dir={str(cache_dir)!r}))\n"
        "LoadProcesses(wiring.settings, 2).serve(wiring)\n"
        "wiring.sparse_encoder().encode([f'It is {n}.' for n in range(40)], None)\n"
        "print(*[child.pid for child in multiprocessing.active_children()], flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 2
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: not any(map(_runs, children)))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_worker_count_follows_cores_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    monkeypatch.setattr("os.sysconf", lambda name: {"SC_PAGE_SIZE": 4096}.get(name, 4_000_000))
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(load_stores, "CONTAINER_MEMORY", limit)
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "small.md").write_text(TEXT)
    (folder / "gone.md").symlink_to("nowhere.md")
    assert workers_for([folder]) == 1
    large = folder / "deep" / "large.txt"
    large.write_bytes(b"a" * 1_000_000)
    assert workers_for([folder]) == workers_for([large]) == 4
    for memory, count in (("max", 4), ("2500000000", 2), ("500000000", 1)):
        limit.write_text(f"{memory}\n")
        assert workers_for([folder]) == count
