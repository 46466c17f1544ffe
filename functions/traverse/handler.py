"""Entry point of `POST /v1/traverse`, and of verbosity graph inside the workflow (mode graph)."""

import time
from typing import Any

from docstokg.contracts.state import Grounded, Reply
from docstokg.contracts.traverse import TraverseEnvelope
from docstokg.usecases.run import Run
from docstokg.wiring import Handler, Wiring, entry_point
from functions.traverse.call_budget import CallBudget
from functions.traverse.traverse import traverse, view_of_citations


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients; both modes share one budget per caller."""
    graph = wiring.knowledge_graph()
    index = wiring.search_index()
    embedder = wiring.embedder()
    per_minute = wiring.settings.graph_budget_per_minute
    budget = CallBudget(per_minute, wiring.call_counter(), wiring.telemetry)

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        if event.get("mode") == "graph":
            found = view_of_citations(
                Run.of(event, wiring.telemetry),
                Grounded.model_validate(event["grounded"]),
                graph=graph,
                index=index,
                embedder=embedder,
                budget=budget,
            )
            if isinstance(found, Reply):
                refused = found.model_dump(mode="json")
                return {"graph": None, "degraded": [], "reply": refused}
            view, degraded = found
            shown = None if view is None else view.model_dump(mode="json")
            return {"graph": shown, "degraded": list(degraded), "reply": None}
        reply = traverse(
            TraverseEnvelope.model_validate(event),
            graph=graph,
            index=index,
            embedder=embedder,
            budget=budget,
            telemetry=wiring.telemetry,
            enabled=wiring.current_settings().feature_traversal_tool,
            now_s=time.time(),
        )
        return reply.model_dump(mode="json")

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
