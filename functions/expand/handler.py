"""Entry point of graph expansion, and of routing before retrieval (mode route)."""

import time
from typing import Any

from docstokg.contracts.request import RAGRequest
from docstokg.contracts.state import Expansion, Plan, Retrieval, RouteScope
from docstokg.domain import gate as gates
from docstokg.usecases.domains import ONTOLOGY
from docstokg.wiring import Handler, Wiring, entry_point
from functions.expand.expand import expand
from functions.expand.route import route


def build(wiring: Wiring) -> Handler:
    """Make the handler with its graph client and the fitted gate."""
    graph = wiring.knowledge_graph()
    gate = gates.fitted()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        request = RAGRequest.model_validate(event["request"])
        plan = Plan.model_validate(event["plan"])
        result: Expansion | RouteScope
        if event.get("mode") == "route":
            result = route(
                request,
                plan,
                graph=graph,
                domain=ONTOLOGY,
                telemetry=wiring.telemetry,
                clock=time.time,
            )
        else:
            result = expand(
                request,
                plan,
                Retrieval.model_validate(event["retrieval"]),
                graph=graph,
                gate=gate,
                telemetry=wiring.telemetry,
                clock=time.time,
            )
        return result.model_dump(mode="json", exclude_defaults=True)

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
