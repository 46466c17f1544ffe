"""Entry point of the last step: what was found and written becomes the reply."""

from typing import Any

from docstokg.contracts.state import RespondInput
from docstokg.domain import time_budget
from docstokg.entry import entry_point
from docstokg.usecases.chat import chat_reply
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.domains import domain_of
from docstokg.usecases.run import Run
from docstokg.wiring import Handler, Wiring
from docstokg_functions.respond.consistency import facts_told, held_to_domain
from docstokg_functions.respond.respond import Checks, respond


def checks_of(wiring: Wiring) -> Checks:
    """Give what an answer is checked with here."""
    embedder = wiring.embedder()
    graph, domain = wiring.knowledge_graph(), domain_of(wiring.settings.domains)
    return Checks(
        lambda run, time_s: Comparison(run, embedder, time_s, time_s + time_budget.WORDS_S),
        lambda run, checked, blocks: held_to_domain(
            run, checked, blocks, graph=graph, domain=domain
        ),
        lambda run, answer: facts_told(run, answer, graph=graph),
    )


def build(wiring: Wiring) -> Handler:
    """Make the handler with its clients."""
    index, checks, trace_sink = wiring.search_index(), checks_of(wiring), wiring.trace_sink()

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        run = Run.of(event, wiring.telemetry)
        reply = respond(
            run,
            RespondInput.model_validate(event),
            index=index,
            checks=checks,
            response_cache=wiring.response_cache,
            trace_sink=trace_sink,
        )
        if run.plan.chat is not None:
            reply = chat_reply(reply, run.plan.chat, run.plan.started_ms)
        return reply.model_dump(mode="json")

    return handler


__getattr__ = entry_point(build, globals())
