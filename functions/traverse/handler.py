"""Entry point: `POST /v1/traverse`, verbosity graph."""

from functools import partial

from docstokg.contracts import Json
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.contracts.state import Grounded
from docstokg.domain import time_budget
from docstokg.entry import entry_point
from docstokg.usecases.refusals import tell_refusal
from docstokg.usecases.run import Run, beginning
from docstokg.wiring import Handler, Wiring
from docstokg_functions.traverse.call_budget import CallBudget
from docstokg_functions.traverse.traverse import traverse, view_of_citations
from docstokg_functions.traverse.walk import walk_graph


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    graph, index = wiring.knowledge_graph(), wiring.search_index()
    walk = partial(walk_graph, graph=graph, index=index, embedder=wiring.embedder())
    per_minute = wiring.settings.graph_budget_per_minute
    budget = CallBudget(per_minute, wiring.call_counter(), wiring.telemetry)
    begin = beginning(wiring.telemetry, time_budget.TRAVERSE_S)

    def handler(event: Json, context: object) -> Json:
        if event.get("mode") == "graph":
            run = Run.of(event, wiring.telemetry)
            grounded = Grounded.model_validate(event["grounded"])
            view = view_of_citations(run, grounded, walk=walk, budget=budget)
            refused = isinstance(view, Reply)
            document = None if view is None else view.model_dump(mode="json")
            return {
                "graph": None if refused else document,
                "took_ms": run.took_ms(),
                "degraded": list(run.degraded),
                "reply": document if refused else None,
            }
        envelope = Envelope.model_validate(event)
        reply = traverse(
            envelope,
            begin=begin,
            index=index,
            walk=walk,
            budget=budget,
            enabled=wiring.current_settings().traverses,
        )
        tell_refusal(wiring.telemetry, envelope, reply)
        return reply.model_dump(mode="json")

    return handler


__getattr__ = entry_point(build, globals())
