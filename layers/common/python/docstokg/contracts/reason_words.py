"""Texts of reasons."""

from collections.abc import Mapping

# Text of each degraded reason; `make page-words` writes the copy of the page.
REASONS: Mapping[str, str] = {
    "bm25_unavailable": "keyword search was unavailable",
    "splade_unavailable": "sparse search was unavailable",
    "dense_unavailable": "vector search was unavailable",
    "embedding_unavailable": "the embedding of the question failed",
    "facts_unavailable": "fact search was unavailable",
    "retrieval_timeout": "search timed out",
    "retrieval_unavailable": "search was unavailable",
    "hydration_incomplete": "some passages could not be loaded",
    "kg_unavailable": "the knowledge graph was unavailable",
    "kg_timeout": "the knowledge graph timed out",
    "kg_plan_rejected": "the graph rejected the query plan",
    "reranker_unavailable": "the reranker was unavailable",
    "verifier_unavailable": "the verifier was unavailable",
    "deadline_exceeded": "the time limit of the request was reached",
    "llm_timeout": "the language model timed out",
    "llm_quota_exceeded": "the quota of the language model is exhausted",
    "llm_unavailable": "the language model was unavailable",
    "payload_trimmed": "the response was truncated to the maximum size",
}

# Text of each verdict reason; `make page-words` writes the copy of the page.
VERDICT_REASONS: Mapping[str, str] = {
    "no_claim": "no claim",
    "too_long": "the text is too long to check completely",
    "number_not_in_source": "a number that no cited source contains",
    "name_not_in_source": "a name that no cited source contains",
    "id_not_in_source": "an identifier that no cited source contains",
    "id_label_mismatch": "identifier and label do not match",
    "contradicted": "the source contradicts it",
    "not_stated": "the source does not state it",
    "marker_added": "the marker was added by the check",
}
