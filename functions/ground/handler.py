"""Entry point of grounding: references become citations with snippets, hashes and offsets."""

import time
from typing import Any

from docstokg.contracts.request import RAGRequest
from docstokg.contracts.state import Expansion, Plan, Retrieval
from docstokg.wiring import Handler, Wiring, entry_point
from functions.ground.ground import ground


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients."""
    index = wiring.search_index()
    reranker = wiring.reranker()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        expansion = event.get("expansion")
        grounded = ground(
            RAGRequest.model_validate(event["request"]),
            Plan.model_validate(event["plan"]),
            Retrieval.model_validate(event["retrieval"]),
            Expansion.model_validate(expansion) if expansion is not None else None,
            index=index,
            reranker=reranker,
            min_score=wiring.settings.min_score,
            max_blocks=wiring.settings.max_blocks,
            telemetry=wiring.telemetry,
            clock=time.time,
        )
        return grounded.model_dump(mode="json", exclude_defaults=True)

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
