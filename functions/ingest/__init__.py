"""The loader's stages as functions."""

from collections.abc import Callable

from docstokg.contracts import Json
from docstokg.contracts.ingest import IngestTask


def staged(stage: Callable[[IngestTask, object], Json]) -> Callable[[Json, object], Json]:
    """Return the handler of a stage, called with its task and the runtime's context."""
    return lambda event, context: stage(IngestTask.model_validate(event), context)
