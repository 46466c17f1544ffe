"""Entry point of the last step: what was found and written becomes the reply."""

import time
from typing import Any

from docstokg.contracts.state import RespondInput
from docstokg.wiring import Handler, Wiring, entry_point
from functions.respond.respond import Limits, respond


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients."""
    settings = wiring.settings
    limits = Limits(
        max_full_text_bytes=settings.max_full_text_bytes,
        repair=settings.repair,
    )
    index = wiring.search_index()
    embedder = wiring.embedder()
    entailment = wiring.entailment()
    trace_sink = wiring.trace_sink()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        reply = respond(
            RespondInput.model_validate(event),
            limits=limits,
            index=index,
            embedder=embedder,
            entailment=entailment,
            response_cache=wiring.response_cache,
            trace_sink=trace_sink,
            telemetry=wiring.telemetry,
            clock=time.time,
        )
        return reply.model_dump(mode="json")

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
