"""Entry point: stages `close` and `store`."""

from docstokg.contracts import Json
from docstokg.contracts.ingest import IngestTask
from docstokg.entry import entry_point
from docstokg.loading.run.resolved import ResolverCache
from docstokg.loading.run.stages import close, store
from docstokg.loading.run.task_time import TaskTime
from docstokg.loading.stores import stores_of
from docstokg.wiring import Handler, Wiring

WATCH_SHARDS = "watch_shards"


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    objects, stores, resolvers = wiring.object_store(), stores_of(wiring), ResolverCache()
    max_loads = wiring.settings.load_concurrency

    def handler(event: Json, context: object) -> Json:
        if event.get("job") == WATCH_SHARDS:
            is_due = wiring.resizing().is_due()
            wiring.telemetry.count("index_resize_due", int(is_due))
            return {"resize_due": is_due}
        task, time_left = IngestTask.model_validate(event), TaskTime.of(context)
        if task.stage == "store":
            closed = store(task, objects, stores, resolvers, time_left, max_loads)
        else:
            closed = close(task, objects, stores, time_left)
        if "loaded" in closed:
            fields = {"namespace": task.run.namespace, "loaded": closed["loaded"]}
            wiring.telemetry.log("INFO", "request", route="load", **fields)
        if kept_back := closed.get("kept_back_count"):
            wiring.telemetry.count("ingest_kept_back_total", kept_back)
        return closed

    return handler


__getattr__ = entry_point(build, globals())
