"""Trimming of the reply to the payload limit."""

import json
from functools import partial

from docstokg.contracts.envelope import Reply
from docstokg.contracts.response import Citation, RAGResponse
from docstokg.domain.budget import nested_json_bytes, smaller
from docstokg.domain.text import snippets
from docstokg.domain.text.sentences import sentence_spans

MEDIA_TYPE = {"Content-Type": "application/json"}
_NOT_FULL = {"full_text": None, "title": None, "metadata": None}


def reply_within(
    response: RAGResponse, limit: int, *, with_diagnostics: bool
) -> tuple[Reply, RAGResponse]:
    """Return the reply with a body of at most `limit` bytes, measured as a JSON string.

    Trimmed in this order: additions of verbosity full from the lowest rank, `graph`, uncited
    snippets, uncited citations from the lowest rank. Adds the degraded reason `payload_trimmed`.
    """
    body = _body(response, with_diagnostics)
    if nested_json_bytes(body) > limit:
        response = _trimmed(_degraded(response), limit, with_diagnostics)
        body = _body(response, with_diagnostics)
    return Reply(statusCode=200, body=body, headers=MEDIA_TYPE), response


def _body(response: RAGResponse, with_diagnostics: bool) -> str:
    shown = response if with_diagnostics else _undiagnosed(response)
    return json.dumps(shown.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"))


def _undiagnosed(response: RAGResponse) -> RAGResponse:
    diagnostics = response.diagnostics
    reasons = diagnostics.degraded_reasons if diagnostics is not None else ()
    lost = (f"Degraded: {', '.join(reasons)}.",) if reasons else ()
    return response.model_copy(
        update={"diagnostics": None, "warnings": (*response.warnings, *lost)}
    )


def _trimmed(response: RAGResponse, limit: int, with_diagnostics: bool) -> RAGResponse:
    citations = list(response.citations)
    over = nested_json_bytes(_body(response, with_diagnostics)) - limit
    over = smaller(citations, over, _bytes, lambda one: one.model_copy(update=_NOT_FULL))
    if over > 0 and response.graph is not None:
        told = (*response.warnings, "The graph did not fit.")
        response = response.model_copy(update={"graph": None, "warnings": told})
        over = nested_json_bytes(_body(_with(response, citations), with_diagnostics)) - limit
    for step in snippets.STEPS:
        over = smaller(citations, over, _bytes, partial(_shorter, limit=step))
    smaller(citations, over, _bytes, lambda one: one if one.cited else None)
    return _with(response, citations)


def _with(response: RAGResponse, citations: list[Citation]) -> RAGResponse:
    ranks = {citation.rank for citation in citations}
    told = tuple(one for one in response.conflicts if ranks.issuperset(one.ranks))
    return response.model_copy(
        update={"citations": tuple(citations), "results_count": len(citations), "conflicts": told}
    )


def _degraded(response: RAGResponse) -> RAGResponse:
    diagnostics = response.diagnostics
    if diagnostics is None:
        return response
    reasons = tuple(dict.fromkeys((*diagnostics.degraded_reasons, "payload_trimmed")))
    told = diagnostics.model_copy(update={"degraded": True, "degraded_reasons": reasons})
    return response.model_copy(update={"diagnostics": told})


def _shorter(citation: Citation, limit: int) -> Citation:
    text = citation.snippet
    if citation.cited or len(text) <= limit:
        return citation
    end = snippets.shortened(text, sentence_spans(text), 0, len(text), limit)
    return citation.model_copy(
        update={
            "boxes": (),
            "snippet": text[:end],
            "char_end": citation.char_end - (len(text) - end),
        }
    )


def _bytes(citation: Citation) -> int:
    return nested_json_bytes(json.dumps(citation.model_dump(mode="json"), ensure_ascii=False))
