"""Follow one passage to the citations, and say what would have kept it."""

from collections.abc import Sequence

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import ExplainResponse, ExplainStage
from docstokg.contracts.retrieval import Hydrated
from docstokg.contracts.state import Expansion, Retrieval
from docstokg.usecases.run import Run


def explain(
    run: Run,
    retrieval: Retrieval,
    expansion: Expansion | None,
    hydrated: Hydrated,
    order: Sequence[StoredChunk],
    kept: int,
) -> ExplainResponse | None:
    """Join the stages of the passage that is followed; None where none is, or none is there.

    `order`: the passages before `max_chunks` cuts them, of which a reranker leaves `kept`.
    """
    expected, plan = retrieval.expected, run.plan
    if expected is None:
        return None
    uuid = expected.uuid
    stages = [*retrieval.trail, *(expansion.trail if expansion is not None else ())]
    place = next((i for i, chunk in enumerate(order, 1) if chunk.uuid == uuid), None)
    most = plan.budget_limits.max_chunks
    if uuid in (*hydrated.chunks, *hydrated.missing, *hydrated.failed):
        if place is None:
            repeated = uuid in hydrated.chunks
            reason = "a passage before it says nearly the same" if repeated else "it was not read"
            stages.append(ExplainStage(stage="passages", outcome="lost", reason=reason))
        elif place > kept:
            reason = f"place {place} of {len(order)} after reranking, {kept} stay"
            stages.append(
                ExplainStage(stage="selection", outcome="lost", rank=place, reason=reason)
            )
        else:
            reason = f"place {place}, budget.max_chunks is {most}"
            outcome = "kept" if place <= most else "lost"
            stages.append(ExplainStage(stage="budget", outcome=outcome, rank=place, reason=reason))
    lost_at = _lost_at(stages)
    return ExplainResponse(
        doc_id=expected.doc_id,
        chunk_id=expected.chunk_id,
        rank=place if lost_at is None else None,
        stages=tuple(stages),
        lost_at=lost_at,
        would_have_helped=_helps(lost_at, stages),
        request_id=plan.request_id,
    )


def _lost_at(stages: Sequence[ExplainStage]) -> str | None:
    """Name the first stage that lost it after the last that had it; None when it is cited."""
    lost = None
    for stage in stages:
        if stage.stage == "filter":
            return "filter"
        if stage.outcome == "kept":
            lost = None
        elif stage.outcome == "lost" and lost is None:
            lost = stage.stage
    return lost


def _helps(lost_at: str | None, stages: Sequence[ExplainStage]) -> tuple[str, ...]:
    ranks = {stage.stage: stage.rank for stage in stages if stage.rank is not None}
    match lost_at:
        case "filter":
            return ("a request without filter and kg_expansion.route",)
        case "search":
            return ("a question with words or names that the passage has",)
        case "selection" | "walk" if (found := ranks.get("search")) is not None and found <= 100:
            return (f"top_k {found} or more",)
        case "walk" | "selection":
            return ("a question that names what the passage is about",)
        case "budget":
            return (f"budget.max_chunks {ranks['budget']} or more",)
        case _:
            return ()
