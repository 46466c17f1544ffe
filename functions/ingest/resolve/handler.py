"""Entry point: stage `resolve`."""

from docstokg.entry import entry_point
from docstokg.loading.run.stages import resolve
from docstokg.loading.run.task_time import TaskTime
from docstokg.loading.stores import stores_of
from docstokg.wiring import Handler, Wiring
from docstokg_functions.ingest import staged


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    objects, stores = wiring.object_store(), stores_of(wiring)
    max_loads = wiring.settings.load_concurrency
    return staged(
        lambda task, context: resolve(task, objects, stores, TaskTime.of(context), max_loads)
    )


__getattr__ = entry_point(build, globals())
