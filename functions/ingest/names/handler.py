"""Entry point of the stage `names` of a load: names are found in rows."""

from typing import Any

from docstokg.contracts.ingest import IngestTask
from docstokg.entry import entry_point
from docstokg.loading.run.stages import names
from docstokg.wiring import Handler, Wiring


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients and models."""
    objects, finder = wiring.object_store(), wiring.names()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return names(IngestTask.model_validate(event), objects, finder)

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
