"""Entry point of the stage `write` of a load: documents are written."""

from typing import Any

from docstokg.contracts.ingest import IngestTask
from docstokg.entry import entry_point
from docstokg.loading.run.resolved import ResolverCache
from docstokg.loading.run.stages import write
from docstokg.loading.stores import stores_of
from docstokg.wiring import Handler, Wiring


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients and models."""
    objects, stores, resolvers = wiring.object_store(), stores_of(wiring), ResolverCache()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return write(IngestTask.model_validate(event), objects, stores, resolvers)

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
