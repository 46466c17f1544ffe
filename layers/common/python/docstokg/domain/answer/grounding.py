"""Grounding report."""

from collections.abc import Collection, Sequence

from docstokg.contracts.response import CheckedBy, Grounding, SentenceVerdict

MIN_COVERAGE = 0.7


def report(
    verdicts: Sequence[SentenceVerdict],
    given: int,
    invalid: Sequence[str],
    checked_by: tuple[CheckedBy, ...],
) -> Grounding:
    """Return the report on the verdicts of all statements.

    coverage = factual sentences with a valid marker / factual sentences (1 without any);
    context_coverage = ranks cited / ranks given (0 without any). `invalid`: unusable markers.
    """
    factual = [one for one in verdicts if one.reasons != ("no_claim",)]
    marked = sum(bool(one.citations) for one in factual)
    cited = len({rank for one in verdicts for rank in one.citations})
    coverage = round(marked / len(factual) if factual else 1.0, 4)
    return Grounding(
        coverage=coverage,
        context_coverage=round(cited / given, 4) if given else 0.0,
        cited_count=cited,
        total_citations=given,
        invalid_citations=tuple(invalid),
        grounded=is_grounded(factual, coverage, invalid),
        checked_by=checked_by,
        sentences=tuple(verdicts),
    )


def is_grounded(
    factual: Sequence[SentenceVerdict], coverage: float, invalid: Collection[str]
) -> bool | None:
    """Return True if all factual sentences, at least one, are supported; False on a failed check.

    Else None. Failed checks: an unsupported or uncited sentence, an invalid marker, or coverage
    below 0.7.
    """
    kinds = {one.verdict for one in factual}
    if invalid or coverage < MIN_COVERAGE or kinds & {"unsupported", "uncited"}:
        return False
    return True if kinds == {"supported"} else None


def verified(sentences: Sequence[SentenceVerdict]) -> tuple[int, int]:
    """Return the number of supported factual sentences and of all factual sentences."""
    factual = [one for one in sentences if one.reasons != ("no_claim",)]
    return sum(one.verdict == "supported" for one in factual), len(factual)
