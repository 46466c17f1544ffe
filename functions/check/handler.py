"""Entry point of `POST /v1/check`."""

from docstokg.contracts import Json
from docstokg.contracts.check import Consistency
from docstokg.contracts.envelope import Envelope
from docstokg.contracts.records import Scope
from docstokg.domain import time_budget
from docstokg.domain.deadline import Deadline
from docstokg.entry import entry_point
from docstokg.usecases.comparison import Comparison
from docstokg.usecases.domains import domain_of
from docstokg.usecases.refusals import tell_refusal
from docstokg.usecases.run import beginning
from docstokg.wiring import Handler, Wiring
from docstokg_functions.check.check import check


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    index = wiring.search_index()
    embedder, verifier = wiring.embedder(), wiring.verifier()
    graph, domain = wiring.knowledge_graph(), domain_of(wiring.settings.domains)
    begin = beginning(wiring.telemetry, min(time_budget.CHECK_S, wiring.settings.max_timeout_s))

    def consistency(draft: str, scope: Scope, deadline: Deadline) -> Consistency:
        return domain.check_consistency(draft, graph, scope, deadline)

    def handler(event: Json, context: object) -> Json:
        envelope = Envelope.model_validate(event)
        reply = check(
            envelope,
            begin=begin,
            index=index,
            embedder=embedder,
            compare=lambda call, deadline: Comparison(
                call,
                embedder,
                deadline,
                call.deadline.limit(time_budget.CHECK_S, time_budget.CHECK_REPLY_S),
            ),
            verifier=verifier,
            check_consistency=consistency if wiring.current_settings().kg_enabled else None,
        )
        tell_refusal(wiring.telemetry, envelope, reply)
        return reply.model_dump(mode="json")

    return handler


__getattr__ = entry_point(build, globals())
