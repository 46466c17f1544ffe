"""Entry point of `POST /v1/check`."""

from typing import Any

from docstokg.contracts.envelope import Envelope
from docstokg.domain import time_budget
from docstokg.entry import entry_point
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.domains import domain_of
from docstokg.usecases.ontology_facts import facts_of
from docstokg.usecases.refusals import tell_refusal
from docstokg.usecases.run import beginning
from docstokg.wiring import Handler, Wiring
from docstokg_functions.check.check import AgainstGraph, check


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients."""
    index = wiring.search_index()
    embedder = wiring.embedder()
    graph = _against_graph(wiring)
    begin = beginning(wiring.telemetry, min(time_budget.CHECK_S, wiring.settings.max_timeout_s))

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        envelope = Envelope.model_validate(event)
        reply = check(
            envelope,
            begin=begin,
            index=index,
            embedder=embedder,
            compare=lambda call, time_s: Comparison(call, embedder, time_s),
            graph=graph if wiring.current_settings().kg_enabled else None,
        )
        tell_refusal(wiring.telemetry, envelope, reply)
        return reply.model_dump(mode="json")

    return handler


def _against_graph(wiring: Wiring) -> AgainstGraph:
    graph, domain = wiring.knowledge_graph(), domain_of(wiring.settings.domains)
    return AgainstGraph(
        lambda draft, scope, time_s: domain.check_consistency(draft, graph, scope, time_s),
        lambda claims, scope, time_s: facts_of(claims, graph, scope, time_s),
    )


__getattr__ = entry_point(build, globals())
