"""A run of the loading machine beside a `docstokg load` into the same namespace of one store.

Whoever has the store's lease writes, the other one waits or begins again; both end in the content
of one load after the other. The load is a process of its own: a lease is a process's.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg.errors import Locked
from docstokg.loading.run import lease as run_lease
from docstokg_local.engine.engine import Execution
from tests.ingest_runner import run_ingest, stage_functions
from tests.unit.test_stages import NS, Place, folder_of

pytestmark = pytest.mark.slow
ENCODING, WAITING = "chunks", "waiting for the load under way"
"""Stages of a load: the one that waits for its gate, and the one that waits for another load."""


class Beside:
    """A load that was begun from a laptop; it encodes nothing before it is let."""

    def __init__(self, place: Place, source: Path, folder: Path) -> None:
        self._gate = folder / "gate"
        (folder / "settings.json").write_text(place.settings.model_dump_json())
        command = [sys.executable, "-m", "tests.workflow.ingest_process", str(folder)]
        self._process = subprocess.Popen(
            [*command, "load", str(source), str(self._gate)], stdout=subprocess.PIPE, text=True
        )

    def is_at(self, stage: str) -> None:
        """Wait until it begins a stage."""
        assert self._process.stdout is not None
        said = []
        for line in self._process.stdout:
            said.append(line.strip())
            if said[-1] == stage:
                return
        raise AssertionError(said)

    def end(self) -> None:
        self._gate.touch()
        assert self._process.stdout is not None
        self._process.stdout.read()
        assert self._process.wait() == 0

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Machine:
    """The loading machine over a place's bucket.

    `before`: what happens ahead of a stage's first task; `meanwhile`: while it waits for a try.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self.before: dict[str, Callable[[], object]] = {}
        self.meanwhile: Callable[[], object] = lambda: None
        self.waits = 0

    def run(self, run_id: str) -> Execution:
        wiring = self._place.wiring()
        functions = {
            name: self._watched(name, handler) for name, handler in stage_functions(wiring).items()
        }
        run = {"run_id": run_id, "namespace": NS, "bucket": "b", "prefix": f"sources/{NS}/"}
        try:
            return run_ingest(functions, wiring.object_store(), run, self._failed)
        finally:
            wiring.close()

    def _watched(self, name: str, handler: Any) -> Any:
        def call(event: dict[str, Any], context: object) -> Any:
            self.before.pop(name, lambda: None)()
            return handler(event, context)

        return call

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Locked):
            self.waits += 1
            self.meanwhile()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that finds the store held says so without waiting."""
    monkeypatch.setattr(run_lease, "TAKE_S", 0.0)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What the machine loads."""
    return folder_of(tmp_path / "in", 8)


@pytest.fixture
def place(tmp_path: Path, source: Path) -> Place:
    (tmp_path / "store").mkdir()
    made = Place(tmp_path / "store")
    made.upload(source)
    return made


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """What a laptop loads beside it, which names the same things."""
    folder = tmp_path / "beside"
    folder.mkdir()
    for number in range(6):
        text = f"# Note {number}\n\nThe Institute of Pumps (IoP) in Trier has pump {number}.\n"
        (folder / f"note{number}.md").write_text(text)
    return folder


@pytest.fixture
def beside(place: Place, other: Path, tmp_path: Path) -> Iterator[Callable[[], Beside]]:
    begun = []

    def begin() -> Beside:
        begun.append(Beside(place, other, tmp_path))
        return begun[-1]

    yield begin
    for one in begun:
        one.close()


@pytest.fixture
def wanted(source: Path, other: Path, tmp_path: Path) -> tuple[str, str, str]:
    """The digest of one load after the other."""
    (tmp_path / "laptop").mkdir()
    laptop = Place(tmp_path / "laptop")
    laptop.load(other, prefix="beside/")
    laptop.load(source)
    return laptop.digest()


Begin = Callable[[], Beside]
Digest = tuple[str, str, str]


def test_a_run_waits_while_a_load_is_under_way(place: Place, beside: Begin, wanted: Digest) -> None:
    loading, machine = beside(), Machine(place)
    loading.is_at(ENCODING)
    machine.meanwhile = loading.end
    ended = machine.run("run")
    assert ended.status == "SUCCEEDED", ended.cause
    assert machine.waits == 1
    assert place.digest() == wanted


def test_a_load_waits_while_a_task_of_a_run_writes(
    place: Place, beside: Begin, wanted: Digest
) -> None:
    wiring = place.wiring()
    with wiring.index_writer().hold(0, run="run"):
        loading = beside()
        loading.is_at(WAITING)
    wiring.close()
    loading.end()
    assert Machine(place).run("run").status == "SUCCEEDED"
    assert place.digest() == wanted


@pytest.mark.parametrize("stage", ["Write", "Close"])
def test_a_load_between_two_tasks_ends_the_run_with_its_reason(
    place: Place, beside: Begin, wanted: Digest, stage: str
) -> None:
    """What the run decided no longer fits the store: nothing more of it is written."""
    machine = Machine(place)
    machine.before[f"Ingest{stage}Function"] = lambda: beside().end()
    assert machine.run("first").status == "FAILED"
    report = json.loads(place.objects.get("runs/first/report.json"))
    assert "begin it again under another run_id" in report["reason"]
    assert machine.run("second").status == "SUCCEEDED"
    assert place.digest() == wanted


def test_a_load_before_the_book_is_taken_into_account(
    place: Place, beside: Begin, wanted: Digest
) -> None:
    machine = Machine(place)
    machine.before["IngestResolveFunction"] = lambda: beside().end()
    assert machine.run("run").status == "SUCCEEDED"
    assert place.digest() == wanted
