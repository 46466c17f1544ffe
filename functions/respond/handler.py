"""Entry point: last step."""

from docstokg.contracts import Json
from docstokg.contracts.state import RespondInput
from docstokg.entry import entry_point
from docstokg.settings import settings_digest
from docstokg.usecases.answer_checks import checks_of
from docstokg.usecases.chat_reply import chat_reply
from docstokg.usecases.run import Run
from docstokg.wiring import Handler, Wiring
from docstokg_functions.respond.respond import respond


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    index, trace_sink = wiring.search_index(), wiring.trace_sink()
    graph, settings = wiring.knowledge_graph(), wiring.settings
    checks = checks_of(wiring.embedder(), graph, settings.domains, wiring.verifier())
    digest = settings_digest(settings)

    def handler(event: Json, context: object) -> Json:
        run, step_input = Run.of(event, wiring.telemetry), RespondInput.model_validate(event)
        reply = respond(
            run,
            step_input,
            index=index,
            checks=checks,
            response_cache=wiring.response_cache,
            trace_sink=trace_sink,
            receipt_keys=wiring.receipt_keys,
            digest=digest,
        )
        if run.plan.chat:
            reply = chat_reply(reply, run.plan, step_input.synthesis, settings.public_url)
        return reply.model_dump(mode="json")

    return handler


__getattr__ = entry_point(build, globals())
