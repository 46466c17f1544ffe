"""Entry point of the stage `encode` of a load: rows get vectors."""

from typing import Any

from docstokg.contracts.ingest import IngestTask
from docstokg.entry import entry_point
from docstokg.loading.run.stages import encode
from docstokg.wiring import Handler, Wiring


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients and models."""
    objects = wiring.object_store()
    embedder, sparse = wiring.embedder(), wiring.sparse_encoder()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return encode(IngestTask.model_validate(event), objects, embedder, sparse)

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
