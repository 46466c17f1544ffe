// Written by `make page-words` from contracts/reason_words.py.
export const REASONS = {
  "bm25_unavailable": "word search did not answer",
  "splade_unavailable": "learned sparse search did not answer",
  "dense_unavailable": "there was no search by vectors",
  "embedding_unavailable": "the question could not be turned into a vector",
  "facts_unavailable": "the search for stated facts did not answer",
  "retrieval_timeout": "searching took too long",
  "retrieval_unavailable": "no search channel answered",
  "hydration_incomplete": "some passages could not be read",
  "kg_unavailable": "the knowledge graph could not be used",
  "kg_timeout": "the knowledge graph took too long",
  "kg_plan_rejected": "the graph refused the query plan",
  "reranker_unavailable": "the reranker could not be used",
  "verifier_unavailable": "the verifier did not answer",
  "deadline_exceeded": "the time for this question ran out",
  "llm_timeout": "the language model took too long",
  "llm_quota_exceeded": "the language model's quota is used up",
  "llm_unavailable": "the language model did not answer",
  "payload_trimmed": "the response was cut to the allowed size"
};
export const WHY = {
  "no_claim": "no claim",
  "too_long": "the text is too long to check completely",
  "number_not_in_source": "a number that no cited source contains",
  "name_not_in_source": "a name that no cited source contains",
  "id_not_in_source": "an identifier that no cited source contains",
  "id_label_mismatch": "identifier and label do not belong together",
  "contradicted": "the source contradicts it",
  "not_stated": "the source does not state it",
  "marker_added": "the marker was added by the check"
};
