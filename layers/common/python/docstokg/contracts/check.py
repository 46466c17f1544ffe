"""Contract of `POST /v1/check`."""

from collections.abc import Mapping
from typing import Annotated, LiteralString, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from docstokg.contracts.model import Contract, Many, StrictContract
from docstokg.contracts.request import InNamespaces, Query, _no_nul, _no_surrogates
from docstokg.contracts.response import DegradedReason, Grounding

# Text of each verdict reason.
VERDICT_REASONS: Mapping[str, str] = {
    "no_claim": "no claim",
    "too_long": "the text is too long to check completely",
    "number_not_in_source": "a number that no cited source contains",
    "name_not_in_source": "a name that no cited source contains",
    "id_not_in_source": "an identifier that no cited source contains",
    "id_label_mismatch": "identifier and label do not match",
    "cell_mismatch": "value of another cell of the table",
    "contradicted": "the source contradicts it",
    "not_stated": "the source does not state it",
    "marker_added": "the marker was added by the check",
}

TEXT_CHARACTERS = (1, 32_000)
MOST_SOURCES = 50
MAX_SOURCES_BYTES = 400_000

Draft = Annotated[
    str,
    Field(min_length=TEXT_CHARACTERS[0], max_length=TEXT_CHARACTERS[1]),
    AfterValidator(_no_surrogates),
    AfterValidator(_no_nul),
]


SourceText = Annotated[
    str, Field(min_length=1), AfterValidator(_no_surrogates), AfterValidator(_no_nul)
]


class CheckCitation(StrictContract):
    """A cited passage of the draft, optionally narrowed to a span."""

    rank: int = Field(ge=1, le=10_000)
    """number n of the marker [n] in the text"""
    uuid: str = Field(min_length=1, max_length=128)
    """uuid of the cited passage"""
    char_start: int | None = Field(None, ge=0)
    """start of the cited span, in the offset base of the citation"""
    char_end: int | None = Field(None, ge=0)
    """end of the cited span, exclusive"""


class CheckSource(StrictContract):
    """A source text in the request."""

    id: str | None = Field(None, min_length=1, max_length=128)
    """id of the source in the response; default: source-N"""
    title: str = Field("", max_length=1000)
    """title of the source"""
    text: SourceText
    """text of the source; at most 400 kB for all sources together"""


class CheckRequest(InNamespaces):
    """Request body of `POST /v1/check`: a draft, and optionally its citations or source texts.

    With `sources`, the marker `[n]` refers to the n-th source; nothing is read from the store, and
    `consistency` is computed only if a namespace is given. Without citations and sources, passages
    are retrieved for each sentence; `query` improves the retrieval.
    """

    text: Draft
    """draft, 1 to 32000 characters; [n] refers to the citation of rank n"""
    query: Query | None = None
    """question that the draft answers; improves the retrieval of sources"""
    citations: Annotated[Many[CheckCitation], Field(max_length=100)] | None = None
    """citations of the draft; null: passages are retrieved per sentence"""
    sources: Annotated[Many[CheckSource], Field(max_length=MOST_SOURCES)] | None = None
    """source texts to use instead of stored passages; at most 50"""

    @model_validator(mode="after")
    def _sources_are_clear(self) -> Self:
        seen: set[int] = set()
        errors: list[InitErrorDetails] = []
        for place, citation in enumerate(self.citations or ()):
            if citation.rank in seen:
                errors.append(
                    _wrong(("citations", place, "rank"), "rank_repeated", "must be unique")
                )
            seen.add(citation.rank)
            start, end = citation.char_start, citation.char_end
            if (start is None) != (end is None) or (
                start is not None and end is not None and start >= end
            ):
                message = "char_start and char_end must both be given, with start before end"
                errors.append(_wrong(("citations", place, "char_end"), "span_invalid", message))
        if self.sources is not None:
            if self.citations is not None:
                message = "send either citations or sources"
                errors.append(_wrong(("sources",), "sources_and_citations", message))
            if sum(len(source.text.encode()) for source in self.sources) > MAX_SOURCES_BYTES:
                message = f"must have at most {MAX_SOURCES_BYTES:,} bytes together"
                errors.append(_wrong(("sources",), "sources_too_large", message))
        if errors:
            raise ValidationError.from_exception_data("CheckRequest", errors)
        return self


def _wrong(place: tuple[int | str, ...], code: LiteralString, message: str) -> InitErrorDetails:
    error = PydanticCustomError(code, "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=place, input=None)


class ConsistencyIssue(Contract):
    """An inconsistency between `text[start:end]` and the subject domain."""

    code: str
    """kind of the issue"""
    message: str
    """explanation, as a sentence"""
    start: int
    """start in the draft"""
    end: int
    """end in the draft, exclusive"""


class Consistency(Contract):
    """Consistency of the draft with the subject domain."""

    ok: bool
    """true if there are no issues"""
    issues: tuple[ConsistencyIssue, ...] = ()
    """issues found"""


class Source(Contract):
    """A passage that sentences were compared with."""

    rank: int
    """rank used in `citations` of a sentence"""
    uuid: str
    """uuid of the passage"""


class CheckDiagnostics(Contract):
    """Diagnostics of a check."""

    timings_ms: dict[str, float] = {}
    """durations by step in milliseconds"""
    sources: tuple[Source, ...] = ()
    """passages that sentences were compared with"""
    missing: tuple[str, ...] = ()
    """uuids of requested citations that cannot be read"""
    embedding: str | None = None
    """embedding model; null: compared by words only"""
    degraded: bool = False
    """whether a component failed"""
    degraded_reasons: tuple[DegradedReason, ...] = ()
    """failed components"""


class CheckResponse(Contract):
    """Support of the draft by its sources, and its consistency with the graph."""

    grounding: Grounding
    """verdict per sentence"""
    consistency: Consistency | None
    """consistency with the subject domain; null: `sources` without `namespace`"""
    warnings: tuple[str, ...] = ()
    """warnings, such as a disabled graph, so that consistency was not checked"""
    diagnostics: CheckDiagnostics
    """diagnostics"""
