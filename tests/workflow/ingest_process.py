"""One process that runs the loading machine over a folder's bucket, and may die on the way.

python -m tests.workflow.ingest_process FOLDER RUN [STAGE N before|after]
python -m tests.workflow.ingest_process FOLDER load SOURCE GATE

The second one is a load from a laptop, beside it: it names its stages, and waits before it encodes
until there is a file of the name GATE. The stores and the bucket are in the folder, or where
`settings.json` in it says.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docstokg.loading.context import LoadOptions, NullProgress
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.ports import Parts, Spans
from docstokg.settings import Settings
from docstokg_local.engine.engine import Execution
from docstokg_local.loading.stores import stores_of
from tests.ingest_runner import run_ingest, stage_functions
from tests.unit.test_stages import NS, Hashed, Place

Handler = Callable[[dict[str, Any], object], dict[str, Any]]


def dying(handler: Handler, call: int, after: bool) -> Handler:
    """End this process at a call of a stage, as a machine ends that loses its power."""
    lock, calls = threading.Lock(), [0]

    def wrapped(event: dict[str, Any], context: object) -> dict[str, Any]:
        with lock:
            calls[0] += 1
            mine = calls[0] == call
        if mine and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = handler(event, context)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return wrapped


def run_machine(place: Place, run_id: str, death: tuple[str, ...] = ()) -> Execution:
    """Load what is in the place's bucket; `death`: stage, number of its call, before or after."""
    wiring = place.wiring()
    functions = stage_functions(wiring)
    if death:
        name = f"Ingest{death[0].title()}Function"
        functions[name] = dying(functions[name], int(death[1]), death[2] == "after")
    run = {
        **{"run_id": run_id, "namespace": NS, "bucket": "folder", "sync": True, "writers": 2},
        **{"prefix": f"sources/{NS}/", "max_removed": 0, "remove": []},
    }
    try:
        return run_ingest(functions, wiring.object_store(), run)
    finally:
        wiring.close()


def place_in(folder: Path) -> Place:
    """Find the stores and the bucket."""
    said = folder / "settings.json"
    known = Settings.model_validate_json(said.read_text()) if said.is_file() else None
    return Place(folder, known)


class Waiting(Hashed):
    """An embedder that reads nothing before its file is there."""

    def __init__(self, gate: Path) -> None:
        self._gate = gate

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        while not self._gate.exists():
            time.sleep(0.05)
        return super().embed_parts(texts, parts)


class Telling(NullProgress):
    """Progress that names each stage as it begins."""

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        print(title, flush=True)
        yield lambda steps: None


def load_beside(place: Place, source: Path, gate: Path) -> None:
    """Load a folder under a prefix of its own."""
    wiring = place.wiring()
    wiring.override("embedder", Waiting(gate))
    try:
        options = LoadOptions(NS, prefix="beside/")
        load([source], options, stores_of(wiring), RejectLog(), Telling())
    finally:
        wiring.close()


if __name__ == "__main__" and sys.argv[2] == "load":
    load_beside(place_in(Path(sys.argv[1])), Path(sys.argv[3]), Path(sys.argv[4]))
elif __name__ == "__main__":
    print(run_machine(place_in(Path(sys.argv[1])), sys.argv[2], tuple(sys.argv[3:])).status)
