"""Reasons and verdicts in words."""

from collections.abc import Iterable

from docstokg.contracts.response import REASONS

_DOCTOR = "`docstokg doctor` shows unreachable parts"
# Remedies by degraded reason; default `_DOCTOR`.
CURES = {
    "deadline_exceeded": "allow more time: budget.timeout_s in --request FILE",
    "retrieval_timeout": "allow more time: budget.timeout_s in --request FILE",
    "kg_timeout": "allow more time, or ask with --no-graph",
    "kg_plan_rejected": "load into the graph with this version, or ask with --no-graph",
    "llm_timeout": "allow more time, or --synthesize extractive, which needs no network",
    "llm_quota_exceeded": "wait, or --synthesize extractive, which needs no network",
    "llm_unavailable": "see DOCSTOKG_LLM_BASE_URL and DOCSTOKG_LLM_API_KEY (docs/models.md), "
    "or --synthesize extractive, which needs no network",
    "embedding_unavailable": "`docstokg doctor` shows the encoder that the index needs",
    "payload_trimmed": "reduce the response: --top-k, or budget.max_chunks in --request FILE",
}


def in_words(reasons: Iterable[str]) -> str:
    """Return the words of all reasons (unknown: as is), then in parentheses their remedies."""
    names = list(reasons)
    causes = "; ".join(REASONS.get(reason, reason) for reason in names)
    cures = dict.fromkeys(CURES.get(reason, _DOCTOR) for reason in names)
    return f"{causes} ({'; '.join(cures)})"
