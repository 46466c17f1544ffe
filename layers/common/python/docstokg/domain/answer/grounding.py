"""Grounding report."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from docstokg.contracts.response import RULES, Basis, CheckedBy, Grounding, SentenceVerdict

MIN_COVERAGE = 0.7


def place_in_words(document: str, section: str | None, page: int | str | None) -> str:
    """Return where a passage is: "lease.pdf, 2. Term, page 3", "prices.xlsx, Sensors"."""
    numbered = f"page {page}" if isinstance(page, int) else page
    return ", ".join(filter(None, (document, section, numbered)))


def report(
    verdicts: Sequence[SentenceVerdict],
    total: int,
    invalid: Sequence[str],
    checked_by: tuple[CheckedBy, ...],
) -> Grounding:
    """Return the report on the verdicts of all statements.

    coverage = factual sentences with a valid marker / factual sentences (1 without any);
    context_coverage = ranks cited / `total` (0 without any). `invalid`: unusable markers.
    """
    factual = _factual(verdicts)
    marked = sum(bool(verdict.citations) for verdict in factual)
    cited = len({rank for verdict in verdicts for rank in verdict.citations})
    coverage = round(marked / len(factual) if factual else 1.0, 4)
    return Grounding(
        coverage=coverage,
        context_coverage=round(cited / total, 4) if total else 0.0,
        cited_count=cited,
        total_citations=total,
        invalid_citations=tuple(invalid),
        basis=_basis(factual),
        grounded=is_grounded(factual, coverage, invalid),
        checked_by=checked_by,
        sentences=tuple(verdicts),
    )


def _factual(verdicts: Sequence[SentenceVerdict]) -> list[SentenceVerdict]:
    return [verdict for verdict in verdicts if verdict.reasons != ("no_claim",)]


def _basis(factual: Sequence[SentenceVerdict]) -> Basis | None:
    checks = {verdict.decided_by for verdict in factual if verdict.verdict == "supported"}
    if not checks:
        return None
    return "quotation" if checks == {RULES} else "verifier"


def is_grounded(
    factual: Sequence[SentenceVerdict], coverage: float, invalid: Collection[str]
) -> bool | None:
    """Return True if all factual sentences, at least one, are supported; False on a failed check.

    Else None, also while a supported sentence cites a passage that was not proven to state it.
    Failed checks: an unsupported or uncited sentence, an invalid marker, or coverage below 0.7.
    """
    kinds = {verdict.verdict for verdict in factual}
    if invalid or coverage < MIN_COVERAGE or kinds & {"unsupported", "uncited"}:
        return False
    is_proven = all(set(verdict.citations) <= set(verdict.proven) for verdict in factual)
    return True if kinds == {"supported"} and is_proven else None


def verified(verdicts: Sequence[SentenceVerdict]) -> tuple[int, int]:
    """Return the number of supported factual sentences and of all factual sentences."""
    factual = _factual(verdicts)
    return sum(verdict.verdict == "supported" for verdict in factual), len(factual)


def proof(grounding: Mapping[str, Any]) -> str:
    """Return in words where the sentences of a report (JSON) stand, or how many are proven.

    "quoted from [1]", "verified from [1], [3]", "1 of 3 sentences quoted from [2]".
    """
    factual = [each for each in grounding["sentences"] if "no_claim" not in each["reasons"]]
    supported = [sentence for sentence in factual if sentence["verdict"] == "supported"]
    ranks = sorted({rank for sentence in supported for rank in sentence["proven"]})
    words = "quoted" if grounding["basis"] == "quotation" else "verified"
    if ranks:
        words += f" from {', '.join(f'[{rank}]' for rank in ranks)}"
    if supported and len(supported) == len(factual):
        return words
    noun = "sentence" if len(factual) == 1 else "sentences"
    return f"{len(supported)} of {len(factual)} {noun} {words}"
