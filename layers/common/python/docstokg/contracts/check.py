"""`POST /v1/check`: any draft text against given citations, the index and the graph."""

from typing import Annotated, Self

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

Draft = Annotated[
    str,
    Field(min_length=TEXT_CHARACTERS[0], max_length=TEXT_CHARACTERS[1]),
    AfterValidator(_no_surrogates),
    AfterValidator(_no_nul),
]


class CheckCitation(StrictContract):
    """A source that a marker in the draft means; a span in its offset base narrows it."""

    rank: int = Field(ge=1, le=10_000, description="n of the marker [n] in the text")
    uuid: str = Field(min_length=1, max_length=128, description="the passage it means")
    char_start: int | None = Field(
        None, ge=0, description="where the cited part begins, counted as in citations"
    )
    char_end: int | None = Field(None, ge=0, description="where it ends")


class CheckRequest(StrictContract):
    """A draft and, when known, what it cites; `query` helps to find sources for each sentence."""

    text: Draft = Field(
        description="the draft, 1 to 32000 characters; [n] in it means the citation of rank n"
    )
    namespace: Namespace = Field("default", description="where its sources are")
    query: Query | None = Field(None, description="what the draft answers, to find sources by")
    citations: Annotated[Many[CheckCitation], Field(max_length=100)] | None = Field(
        None, description="what its markers mean; null: sources are looked for, by sentence"
    )

    @model_validator(mode="after")
    def _ranks_name_one_source(self) -> Self:
        seen: set[int] = set()
        errors: list[InitErrorDetails] = []
        for place, citation in enumerate(self.citations or ()):
            if citation.rank in seen:
                errors.append(_wrong(place, "rank", "rank_repeated", "must be unique"))
            seen.add(citation.rank)
            start, end = citation.char_start, citation.char_end
            if (start is None) != (end is None) or (
                start is not None and end is not None and start >= end
            ):
                message = "char_start and char_end come together, start before end"
                errors.append(_wrong(place, "char_end", "span_invalid", message))
        if errors:
            raise ValidationError.from_exception_data("CheckRequest", errors)
        return self


def _wrong(place: int, field: str, code: str, message: str) -> InitErrorDetails:
    error = PydanticCustomError(code, message)
    return InitErrorDetails(type=error, loc=("citations", place, field), input=None)


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
    """Whether the sources carry the draft, and whether the draft is consistent with the graph."""

    grounding: Grounding
    """what the sources say of each sentence"""
    consistency: Consistency
    """what the graph says of the draft"""
    diagnostics: CheckDiagnostics
    """what the check took"""
