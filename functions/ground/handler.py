"""Entry point of grounding."""

from docstokg.contracts import Json
from docstokg.contracts.state import Expansion, Retrieval
from docstokg.entry import entry_point
from docstokg.usecases.run import Run
from docstokg.usecases.stream_events import EventWriter
from docstokg.wiring import Handler, Wiring
from docstokg_functions.ground.ground import ground


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    index = wiring.search_index()
    reranker, fallback = wiring.reranker(), wiring.fallback_reranker()

    def handler(event: Json, context: object) -> Json:
        expansion = event.get("expansion")
        run = Run.of(event, wiring.telemetry)
        grounded = ground(
            run,
            Retrieval.model_validate(event["retrieval"]),
            Expansion.model_validate(expansion) if expansion is not None else None,
            index=index,
            reranker=reranker,
            fallback=fallback,
        )
        output = grounded.model_dump(mode="json", exclude_defaults=True)
        if run.plan.streams:
            EventWriter(run, wiring.response_cache).write_grounded(event, output)
        return output

    return handler


__getattr__ = entry_point(build, globals())
