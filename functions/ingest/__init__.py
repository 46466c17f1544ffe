"""The loader's stages as functions."""

from collections.abc import Callable
from typing import Any

from docstokg.contracts.ingest import IngestTask

type Stated = dict[str, Any]


def staged(stage: Callable[[IngestTask, object], Stated]) -> Callable[[Stated, object], Stated]:
    """Return the handler of a stage, called with its task and the runtime's context."""
    return lambda event, context: stage(IngestTask.model_validate(event), context)
