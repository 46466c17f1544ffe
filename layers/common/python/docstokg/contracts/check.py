"""`POST /v1/check`: any draft text against given citations, the index and the graph."""

from typing import Annotated, LiteralString, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from docstokg.contracts.model import Contract, Many, StrictContract
from docstokg.contracts.request import Namespace, Query, _no_nul, _no_surrogates
from docstokg.contracts.response import DegradedReason, Grounding

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
    """A source that a marker in the draft means; a span in its offset base narrows it."""

    rank: int = Field(ge=1, le=10_000, description="n of the marker [n] in the text")
    uuid: str = Field(min_length=1, max_length=128, description="the passage it means")
    char_start: int | None = Field(
        None, ge=0, description="where the cited part begins, counted as in citations"
    )
    char_end: int | None = Field(None, ge=0, description="where it ends")


class CheckSource(StrictContract):
    """A text that the draft is checked against, sent along with it."""

    id: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        description="its name in the response; default: source-N",
    )
    title: str = Field("", max_length=1000, description="its title")
    text: SourceText = Field(description="its text; all sources together have at most 400 kB")


class CheckRequest(StrictContract):
    """A draft and its sources: citations, texts sent along, or neither.

    With `sources`, `[n]` in the draft means the n-th of them; nothing is read from the store, and
    `consistency` is computed only if `namespace` is given. Without citations and sources, passages
    are retrieved for each sentence; `query` helps to find them.
    """

    text: Draft = Field(
        description="the draft, 1 to 32000 characters; [n] in it means the citation of rank n"
    )
    namespace: Namespace | None = Field(
        None, description="namespace of its sources and of the ontology; null: default"
    )
    query: Query | None = Field(None, description="what the draft answers, to find sources by")
    citations: Annotated[Many[CheckCitation], Field(max_length=100)] | None = Field(
        None, description="meaning of its markers; null: passages are retrieved per sentence"
    )
    sources: Annotated[Many[CheckSource], Field(max_length=MOST_SOURCES)] | None = Field(
        None, description="texts to check against instead of stored passages; at most 50"
    )

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
                message = "char_start and char_end come together, start before end"
                errors.append(_wrong(("citations", place, "char_end"), "span_invalid", message))
        if self.sources is not None:
            if self.citations is not None:
                message = "send either citations or sources"
                errors.append(_wrong(("sources",), "sources_and_citations", message))
            if sum(len(one.text.encode()) for one in self.sources) > MAX_SOURCES_BYTES:
                message = f"must have at most {MAX_SOURCES_BYTES:,} bytes together"
                errors.append(_wrong(("sources",), "sources_too_large", message))
        if errors:
            raise ValidationError.from_exception_data("CheckRequest", errors)
        return self


def _wrong(place: tuple[int | str, ...], code: LiteralString, message: str) -> InitErrorDetails:
    error = PydanticCustomError(code, "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=place, input=None)


class ConsistencyIssue(Contract):
    """One thing the draft gets wrong about the domain, at text[start:end]."""

    code: str
    """the kind of issue"""
    message: str
    """what is wrong, in a sentence"""
    start: int
    """where it begins in the draft"""
    end: int
    """where it ends in the draft, exclusive"""


class Consistency(Contract):
    """What the domain says; `ok` is true when there is no issue."""

    ok: bool
    """whether there is no issue"""
    issues: tuple[ConsistencyIssue, ...] = ()
    """what is wrong"""


class Source(Contract):
    """A passage a sentence was compared with; `rank` is what `citations` of a sentence name."""

    rank: int
    """what `citations` of a sentence name"""
    uuid: str
    """the passage"""


class CheckDiagnostics(Contract):
    """What the check took; `missing` are given citations that cannot be read."""

    timings_ms: dict[str, float] = {}
    """milliseconds by step"""
    sources: tuple[Source, ...] = ()
    """the passages that sentences were compared with"""
    missing: tuple[str, ...] = ()
    """uuids of given citations that cannot be read"""
    embedding: str | None = None
    """the encoder that compared texts; null: words alone did"""
    degraded: bool = False
    """whether a part did not answer"""
    degraded_reasons: tuple[DegradedReason, ...] = ()
    """which part did not answer"""


class CheckResponse(Contract):
    """Whether the sources support the draft, and whether it is consistent with the graph."""

    grounding: Grounding
    """the verdict on each sentence"""
    consistency: Consistency | None
    """findings of the subject domain; null: texts were sent along, and no namespace"""
    warnings: tuple[str, ...] = ()
    """such as that the graph is switched off, so that consistency was not checked"""
    diagnostics: CheckDiagnostics
    """what the check took"""
