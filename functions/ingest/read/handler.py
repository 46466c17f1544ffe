"""Entry point of the stage `read` of a load: objects become rows."""

from typing import Any

from docstokg.contracts.ingest import IngestTask
from docstokg.entry import entry_point
from docstokg.loading.run.stages import read
from docstokg.loading.stores import readers_of
from docstokg.wiring import Handler, Wiring


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients and models."""
    objects, readers = wiring.object_store(), readers_of(wiring)

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return read(IngestTask.model_validate(event), objects, readers)

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
