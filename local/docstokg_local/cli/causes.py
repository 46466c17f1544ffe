"""What went wrong, in words, and what to do about it; a reader never sees a list of codes."""

from collections.abc import Iterable
from typing import Final

from docstokg.contracts.response import REASONS

VERDICTS: Final = {
    "no_claim": "it states nothing",
    "other_language": "it is in a language the check does not read",
    "too_long": "the answer is too long to check whole",
    "relation_not_found": "the graph has both names and no such relation",
    "number_not_in_source": "a number the source does not have",
    "name_not_in_source": "a name the source does not have",
    "id_not_in_source": "an identifier the source does not have",
    "id_label_mismatch": "identifier and label do not belong together",
    "negation_mismatch": "one denies what the other states",
    "contradiction_suspected": "the source does not say it plainly",
    "contradicted": "the source says otherwise",
    "subject_mismatch": "the source speaks of something else",
    "restriction_mismatch": "only, never or all is not in the source",
    "marker_added": "the marker was added by the check",
}
"""Why a sentence has its verdict, as a person says it; the page has the same words."""

_DOCTOR = "`docstokg doctor` says what is reachable"
CURES: Final = {
    "deadline_exceeded": "give it more time: budget.timeout_s in --request FILE",
    "retrieval_timeout": "give it more time: budget.timeout_s in --request FILE",
    "kg_timeout": "give it more time, or ask with --no-graph",
    "kg_plan_rejected": "load into the graph with this version, or ask with --no-graph",
    "llm_timeout": "give it more time, or --synthesize extractive, which needs no network",
    "llm_quota_exceeded": "wait, or --synthesize extractive, which needs no network",
    "llm_unavailable": "see DOCSTOKG_LLM_BASE_URL and DOCSTOKG_LLM_API_KEY (docs/models.md), "
    "or --synthesize extractive, which needs no network",
    "embedding_unavailable": "`docstokg doctor` says which encoder the index needs",
    "payload_trimmed": "ask for less: --top-k, or budget.max_chunks in --request FILE",
}
"""What helps against each; anything else is a matter of what can be reached."""


def in_words(reasons: Iterable[str]) -> str:
    """Say degraded reasons in one line, what helps behind them."""
    names = list(reasons)
    causes = "; ".join(REASONS.get(reason, reason) for reason in names)
    cures = dict.fromkeys(CURES.get(reason, _DOCTOR) for reason in names)
    return f"{causes} ({'; '.join(cures)})"
