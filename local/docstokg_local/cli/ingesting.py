"""`docstokg ingest`: a folder through a bucket and the loading machine, as a deployment does it."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ulid import ULID

from docstokg.errors import LoadError, Misconfigured
from docstokg.loading.read.origins import is_listable
from docstokg.loading.read.rejects import Rejection, RejectLog, Unreadable
from docstokg.loading.read.sources import NO_NAME, ODD_NAME
from docstokg.loading.run.rows import every_object
from docstokg.ports import ObjectStore
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.printing import counted, say
from docstokg_local.engine.ingest_machine import IngestMachine, stage_functions

BUCKET = "local"


class RunOrder(NamedTuple):
    """What a run is asked for; `run_id` of one that was ended goes on with that."""

    namespace: str
    sync: bool = False
    max_removed: int = 0
    replace: bool = False
    run_id: str = ""


def with_bucket(settings: Settings) -> Settings:
    """Name a folder for the bucket where none is set: one for each index, in the cache."""
    if settings.ingest_url:
        if not settings.ingest_url.startswith("file://"):
            raise Misconfigured("this machine loads through a folder: DOCSTOKG_INGEST_URL file:///")
        return settings
    place = f"{settings.index_url} {settings.index_name} {settings.graph_url}"
    name = hashlib.sha256(place.encode()).hexdigest()[:16]
    folder = Path(settings.cache_dir).expanduser().resolve() / "buckets" / name
    return settings.model_copy(update={"ingest_url": f"file://{folder}"})


def copy_folder(folder: Path, objects: ObjectStore, namespace: str) -> tuple[int, int]:
    """Bring the namespace's sources to what a folder holds; count what was written and removed.

    `LoadError` when it cannot be listed completely, or a file cannot be read: nothing is removed.
    """
    if not is_listable(folder):
        raise LoadError(f"{folder} cannot be listed completely: nothing was loaded or removed")
    prefix = f"sources/{namespace}/"
    there = dict(every_object(objects, prefix))
    written = 0
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
            continue
        if NO_NAME.search(path.relative_to(folder).as_posix()):
            continue
        try:
            key, body = prefix + path.relative_to(folder).as_posix(), path.read_bytes()
        except OSError as broken:
            raise Unreadable(path, broken) from broken
        if there.pop(key, "") != hashlib.md5(body, usedforsecurity=False).hexdigest():
            objects.put(key, body)
            written += 1
    for key in there:
        objects.delete(key)
    return written, len(there)


def left_out(folder: Path) -> tuple[Rejection, ...]:
    """Say of what lies below a folder why it is not copied (of the first thousand)."""
    top, log = folder.resolve(), RejectLog(examples=1000)
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() and not path.resolve().is_relative_to(top):
            log.add_file(path, "a link that leads out of the folder")
        elif NO_NAME.search(path.relative_to(folder).as_posix()):
            log.add_file(path, ODD_NAME)
    return tuple(log.first)


def ingest_folder(given_wiring: Wiring, folder: Path, order: RunOrder) -> bool:
    """Load a folder and print the run's report; whether everything of it was loaded."""
    wiring = Wiring(with_bucket(given_wiring.settings), given_wiring.telemetry)
    try:
        report = ingest(folder, wiring, order, say)
    finally:
        wiring.close()
    if report.get("reason"):
        say(f"the run failed: {report['reason']}")
        say(f"go on with it: --run-id {report['run_id']}")
        return False
    for row in report["rejected"]:
        say(f"not loaded: {row['doc_id']}: {row['reason']}")
    for warning in report["warnings"]:
        say(warning)
    say(
        f"{counted(report['loaded'], 'document')}, {counted(report['chunks'], 'chunk')}, "
        f"{report['removed']} removed, "
        f"{report['rejected_count']} rejected"
    )
    if more := len(report["kept_back"]):
        say(
            f"gone from the folder, and still there: {counted(more, 'document')}; "
            f"--max-removed {more} removes so many"
        )
    return not report["rejected_count"] and not report["kept_back"]


def ingest(
    folder: Path, wiring: Wiring, order: RunOrder, tell: Callable[[str], object]
) -> dict[str, Any]:
    """Copy a folder and run the machine over it; the run's report, or why it failed in `reason`."""
    objects, namespace = wiring.object_store(), order.namespace
    written, removed = copy_folder(folder, objects, namespace)
    for rejection in left_out(folder):
        tell(f"not copied: {rejection}")
    tell(f"bucket: {written} objects written, {removed} removed")
    run_id = order.run_id or str(ULID())
    tell(f"run {run_id}")
    arguments = {
        "run_id": run_id,
        "namespace": namespace,
        "bucket": BUCKET,
        "prefix": f"sources/{namespace}/",
        "sync": order.sync,
        "max_removed": order.max_removed,
        "replace": order.replace,
    }
    machine = IngestMachine(stage_functions(wiring), objects, tell)
    execution = machine.run(arguments)
    try:
        report: dict[str, Any] = json.loads(objects.get(f"runs/{run_id}/report.json"))
    except KeyError:
        report = {}
    report.setdefault("run_id", run_id)
    if execution.status != "SUCCEEDED":
        report.setdefault("reason", f"{execution.error}: {execution.cause}")
    return report
