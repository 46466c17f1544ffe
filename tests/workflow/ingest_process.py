"""One process that runs the loading machine over a folder's bucket, and may die on the way.

python -m tests.workflow.ingest_process FOLDER RUN [STAGE N before|after]

The stores and the bucket are in the folder, or where
`settings.json` in it says.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docstokg.settings import Settings
from docstokg_local.engine.engine import Execution
from tests.ingest_runner import run_ingest, stage_functions
from tests.unit.test_stages import NS, Place

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
        **{"run_id": run_id, "namespace": place.ns, "bucket": "folder", "sync": True, "writers": 2},
        **{"prefix": f"sources/{place.ns}/", "max_removed": 0, "remove": []},
    }
    try:
        return run_ingest(functions, wiring.object_store(), run)
    finally:
        wiring.close()


def place_in(folder: Path, ns: str = NS) -> Place:
    """Find the stores and the bucket."""
    file = folder / "settings.json"
    settings = Settings.model_validate_json(file.read_text()) if file.is_file() else None
    return Place(folder, settings, ns)


if __name__ == "__main__":
    print(run_machine(place_in(Path(sys.argv[1])), sys.argv[2], tuple(sys.argv[3:])).status)
