"""Entry point of the load stage `close`."""

import time

from docstokg.contracts import Json
from docstokg.contracts.ingest import IngestTask
from docstokg.entry import entry_point
from docstokg.loading.run.stages import close
from docstokg.loading.run.task_time import TaskTime
from docstokg.loading.stores import stores_of
from docstokg.wiring import Handler, Wiring

SNAPSHOT = "snapshot"


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    objects, stores = wiring.object_store(), stores_of(wiring)

    def handler(event: Json, context: object) -> Json:
        if event.get("job") == SNAPSHOT:
            kept = wiring.snapshots().keep_daily(time.time())
            wiring.telemetry.count("index_snapshot_age_days", kept["age_days"])
            return kept
        return close(IngestTask.model_validate(event), objects, stores, TaskTime.of(context))

    return handler


__getattr__ = entry_point(build, globals())
