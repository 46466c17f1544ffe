"""Entry point of retrieval: a plan becomes references to the chunks the channels found."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from docstokg.contracts.request import RAGRequest
from docstokg.contracts.state import Plan, RouteScope
from docstokg.wiring import Handler, Wiring, entry_point
from functions.retrieve.retrieve import retrieve


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients and models, so that no request pays for them."""
    index = wiring.search_index()
    embedder = wiring.embedder()
    sparse_encoder = wiring.sparse_encoder()
    workers = ThreadPoolExecutor(max_workers=4, thread_name_prefix="embed")

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        scope = event.get("scope")
        retrieval = retrieve(
            RAGRequest.model_validate(event["request"]),
            Plan.model_validate(event["plan"]),
            RouteScope.model_validate(scope) if scope is not None else None,
            index=index,
            embedder=embedder,
            embed_provider=wiring.settings.embed_provider,
            sparse_encoder=sparse_encoder,
            workers=workers,
            telemetry=wiring.telemetry,
            clock=time.time,
        )
        return retrieval.model_dump(mode="json", exclude_defaults=True)

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
