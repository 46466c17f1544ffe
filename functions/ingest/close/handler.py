"""Entry point: stages `close` and `store`."""

import time

from docstokg.contracts import Json
from docstokg.contracts.ingest import IngestTask
from docstokg.entry import entry_point
from docstokg.loading.run.resolved import ResolverCache
from docstokg.loading.run.stages import close, store
from docstokg.loading.run.task_time import TaskTime
from docstokg.loading.stores import stores_of
from docstokg.wiring import Handler, Wiring

SNAPSHOT = "snapshot"


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    objects, stores, resolvers = wiring.object_store(), stores_of(wiring), ResolverCache()
    max_loads = wiring.settings.load_concurrency

    def handler(event: Json, context: object) -> Json:
        if event.get("job") == SNAPSHOT:
            snapshots = wiring.snapshots().keep_daily(time.time())
            wiring.telemetry.count("index_snapshot_age_days", snapshots["age_days"])
            return snapshots
        task, time_left = IngestTask.model_validate(event), TaskTime.of(context)
        if task.stage == "store":
            return store(task, objects, stores, resolvers, time_left, max_loads)
        return close(task, objects, stores, time_left)

    return handler


__getattr__ = entry_point(build, globals())
