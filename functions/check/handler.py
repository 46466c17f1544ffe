"""Entry point of `POST /v1/check`."""

from typing import Any

from docstokg.contracts.check import CheckEnvelope
from docstokg.usecases.domains import ONTOLOGY
from docstokg.wiring import Handler, Wiring, entry_point
from functions.check.check import TIME_S, check


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients."""
    index = wiring.search_index()
    embedder = wiring.embedder()
    entailment = wiring.entailment()
    graph = wiring.knowledge_graph() if wiring.settings.kg_enabled else None

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        reply = check(
            CheckEnvelope.model_validate(event),
            index=index,
            graph=graph,
            embedder=embedder,
            entailment=entailment,
            check_consistency=ONTOLOGY.check_consistency,
            telemetry=wiring.telemetry,
            time_s=min(TIME_S, wiring.settings.max_timeout_s),
        )
        return reply.model_dump(mode="json")

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
