"""Trimming to the payload limit."""

from collections.abc import Callable
from functools import partial

from docstokg.contracts import Json, compact_json
from docstokg.contracts.envelope import Reply
from docstokg.contracts.model import Contract
from docstokg.contracts.response import Citation, RAGResponse
from docstokg.domain.budget import nested_json_bytes, smaller
from docstokg.domain.text import snippets
from docstokg.domain.text.sentences import sentence_spans

MEDIA_TYPE = {"Content-Type": "application/json"}
_NOT_FULL = {"full_text": None, "title": None, "metadata": None}


def reply_within(
    response: RAGResponse,
    limit: int,
    *,
    with_diagnostics: bool,
    sign: Callable[[Json], str] | None = None,
) -> tuple[Reply, RAGResponse]:
    """Return the reply with a body of at most `limit` bytes, measured as a JSON string.

    Trimmed from the lowest rank: additions of verbosity full, `graph`, uncited snippets, uncited
    citations with their texts in `receipt`, then `receipt`; cited citations stay. Adds the degraded
    reason `payload_trimmed`. `sign` signs the rest; if it raises `ValueError`, `receipt` is None.
    """
    body = _body(response, with_diagnostics)
    if nested_json_bytes(body) > limit:
        response = _trimmed(_degraded(response), limit, with_diagnostics)
        body = _body(response, with_diagnostics)
    if response.receipt and sign:
        try:
            body = _body(response, with_diagnostics, sign)
        except ValueError as broken:
            response = _without_receipt(response, f"it cannot be signed: {broken}")
            body = _body(response, with_diagnostics)
    return Reply(statusCode=200, body=body, headers=MEDIA_TYPE), response


def _body(
    response: RAGResponse, with_diagnostics: bool, sign: Callable[[Json], str] | None = None
) -> str:
    reply = response if with_diagnostics else _undiagnosed(response)
    fields = reply.model_dump(mode="json")
    if sign:
        fields["receipt"]["signature"] = sign(fields)
    return compact_json(fields)


def _without_receipt(response: RAGResponse, why: str) -> RAGResponse:
    warnings = (*response.warnings, f"There is no receipt: {why}.")
    return response.model_copy(update={"receipt": None, "warnings": warnings})


def _undiagnosed(response: RAGResponse) -> RAGResponse:
    diagnostics = response.diagnostics
    reasons = diagnostics.degraded_reasons if diagnostics else ()
    lost = (f"Degraded: {', '.join(reasons)}.",) if reasons else ()
    return response.model_copy(
        update={"diagnostics": None, "warnings": (*response.warnings, *lost)}
    )


def _trimmed(whole: RAGResponse, limit: int, with_diagnostics: bool) -> RAGResponse:
    response, citations = whole, list(whole.citations)
    over = nested_json_bytes(_body(response, with_diagnostics)) - limit
    over = smaller(citations, over, _bytes, lambda citation: citation.model_copy(update=_NOT_FULL))
    if over > 0 and response.graph:
        warnings = (*response.warnings, "The graph did not fit.")
        response = response.model_copy(update={"graph": None, "warnings": warnings})
        over = nested_json_bytes(_body(_with(response, citations), with_diagnostics)) - limit
    for step in snippets.STEPS:
        over = smaller(citations, over, _bytes, partial(_shorter, limit=step))
    texts = {text.uuid: text for text in response.receipt.texts} if response.receipt else {}

    def with_text(citation: Citation) -> int:
        return _bytes(citation, *(texts[u] for u in (citation.uuid,) if u in texts))

    over = smaller(
        citations, over, with_text, lambda citation: citation if citation.cited else None
    )
    if response.receipt and (over > 0 or not citations):
        return _trimmed(_without_receipt(whole, "it did not fit"), limit, with_diagnostics)
    return _with(response, citations)


def _with(response: RAGResponse, citations: list[Citation]) -> RAGResponse:
    ranks = {citation.rank for citation in citations}
    conflicts = tuple(
        conflict for conflict in response.conflicts if ranks.issuperset(conflict.ranks)
    )
    receipt = response.receipt
    if receipt:
        uuids = {citation.uuid for citation in citations}
        texts = tuple(text for text in receipt.texts if text.uuid in uuids)
        receipt = receipt.model_copy(update={"texts": texts})
    return response.model_copy(
        update={
            "citations": tuple(citations),
            "results_count": len(citations),
            "conflicts": conflicts,
            "receipt": receipt,
        }
    )


def _degraded(response: RAGResponse) -> RAGResponse:
    diagnostics = response.diagnostics
    if diagnostics is None:
        return response
    reasons = tuple(dict.fromkeys((*diagnostics.degraded_reasons, "payload_trimmed")))
    degraded = diagnostics.model_copy(update={"degraded": True, "degraded_reasons": reasons})
    return response.model_copy(update={"diagnostics": degraded})


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


def _bytes(*parts: Contract) -> int:
    return sum(nested_json_bytes(compact_json(part.model_dump(mode="json"))) for part in parts)
