"""Entry point: synthesis; mode `verify`."""

from docstokg.contracts import Json
from docstokg.contracts.state import Block
from docstokg.domain.deadline import Deadline
from docstokg.entry import entry_point
from docstokg.errors import Misconfigured, Unavailable, cause
from docstokg.ports import Pair, Verifier
from docstokg.usecases.run import Run
from docstokg.usecases.stream_events import EventWriter
from docstokg.wiring import Handler, Wiring
from docstokg_functions.synthesize.condense import condense
from docstokg_functions.synthesize.synthesize import synthesize


def build(wiring: Wiring) -> Handler:
    """Return the handler; an unavailable language model is only logged."""
    settings = wiring.settings
    if wiring.model_access().remote(settings.models):
        warm = getattr(wiring.language_model(), "warm", None)
        try:
            if warm is not None:
                warm()
        except Unavailable as exc:
            # Evidence needs no model; each request will report `llm_unavailable`.
            wiring.telemetry.log("WARNING", "language_model_missing", **cause(exc))
    # Created here, so that its client is warm before the first request.
    judge = wiring.verifier() if str(settings.verifier).startswith("llm:") else None

    def handler(event: Json, context: object) -> Json:
        if event.get("mode") == "verify":
            return _verified(event, judge)
        run = Run.of(event, wiring.telemetry)
        if event.get("mode") == "condense":
            return condense(run, wiring.language_model).model_dump(mode="json")
        listener = getattr(context, "add_text", None)  # set by callers that stream
        synthesis = synthesize(
            run,
            [Block.model_validate(block) for block in event["blocks"]],
            relevant=bool(event["relevant"]),
            language_model=wiring.language_model,
            reader=wiring.reader,
            on_text=EventWriter(run, wiring.response_cache).write_text
            if run.plan.streams
            else listener,
        )
        return synthesis.model_dump(mode="json")

    return handler


def _verified(event: Json, judge: Verifier | None) -> Json:
    if judge is None:
        raise Misconfigured("DOCSTOKG_VERIFIER of the function synthesize is not llm:MODEL")
    pairs = [Pair(claim, tuple(sources)) for claim, sources in event["pairs"]]
    return {"opinions": judge.verify(pairs, Deadline.after(event["timeout_s"]))}


__getattr__ = entry_point(build, globals())
