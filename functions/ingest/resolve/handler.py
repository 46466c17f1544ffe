"""Entry point of the stage `resolve` of a load: what a run loads is decided."""

from typing import Any

from docstokg.contracts.ingest import IngestTask
from docstokg.entry import entry_point
from docstokg.loading.run.stages import resolve
from docstokg.loading.run.task_time import TaskTime
from docstokg.loading.stores import stores_of
from docstokg.wiring import Handler, Wiring


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients and models."""
    objects, stores = wiring.object_store(), stores_of(wiring)

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return resolve(IngestTask.model_validate(event), objects, stores, TaskTime.of(context))

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
