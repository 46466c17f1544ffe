"""Measures of a verifier and of the score `support` on claims that people labelled."""

import random
import statistics
from collections.abc import Sequence
from itertools import batched, islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from docstokg.contracts.model import Many
from docstokg.domain.answer import support
from docstokg.domain.answer.citations import strip_markers
from docstokg.domain.vectors import Floats, unpack
from docstokg.errors import LoadError
from docstokg.loading.readers.lines import Line
from docstokg.ports import Embedder
from docstokg_local.evaluation.calibration import roc_area
from docstokg_local.evaluation.retrieval import read_lines

SUPPORTED = ("supported", "complete")
EMBEDDED_AT_ONCE = 512
DRAWS = 500
SEED = 20261125


class _Row(Line):
    id: Annotated[str, Field(min_length=1)]
    claim: Annotated[str, Field(min_length=1)]
    evidence: Many[str]
    supported: bool | None = None
    label: str | None = None
    support: str | None = None
    set: str | None = None


class LabelledClaim(NamedTuple):
    """A claim, the texts that it cites, and whether people found it supported by them."""

    id: str
    set: str
    claim: str
    evidence: tuple[str, ...]
    supported: bool


class Measured(NamedTuple):
    """AUC, its bootstrap standard error, and mean scores of supported and unsupported claims."""

    claims: int
    auc: float
    error: float
    supported: float
    unsupported: float


def read_claims(folder: Path, limit: int | None = None) -> list[LabelledClaim]:
    """Read `claims*.jsonl` of a folder (SPEC 6.3); `set` defaults to the folder's name.

    Raise `LoadError` for a wrong line, a claim without a label, and a folder without claims.
    """

    def read(value: dict[str, Any]) -> LabelledClaim:
        row = _Row.model_validate(value)
        label = row.label or row.support
        if row.supported is None and label is None:
            raise LoadError(f"{folder}: claim {row.id!r} has neither supported, label nor support")
        supported = row.supported
        if supported is None:
            supported = (label or "").casefold() in SUPPORTED
        return LabelledClaim(row.id, row.set or folder.name, row.claim, row.evidence, supported)

    claims = list(islice(read_lines(sorted(folder.glob("claims*.jsonl")), read), limit))
    if not claims:
        raise LoadError(f"{folder} contains no claims (claims*.jsonl)")
    return claims


def balanced_accuracy(called: Sequence[bool], supported: Sequence[bool]) -> float | None:
    """Return the mean of the shares of supported and of unsupported claims called correctly.

    None if all claims have the same label.
    """
    shares = []
    for label in (True, False):
        own = [call for call, is_true in zip(called, supported, strict=True) if is_true == label]
        if not own:
            return None
        shares.append(sum(call == label for call in own) / len(own))
    return statistics.fmean(shares)


def measure(scores: Sequence[float], supported: Sequence[bool]) -> Measured | None:
    """Return the AUC of scores with its standard error; None if all claims have the same label.

    The error is the standard deviation over 500 samples with replacement, seeded; samples with one
    label are left out.
    """
    area = roc_area(scores, supported)
    if area is None:
        return None
    rng = random.Random(SEED)  # noqa: S311 - a bootstrap, not a secret
    pairs = list(zip(scores, supported, strict=True))
    areas = [
        drawn
        for _ in range(DRAWS)
        for sample in (rng.choices(pairs, k=len(pairs)),)
        if (drawn := roc_area(*zip(*sample, strict=True))) is not None
    ]
    means = [
        statistics.fmean(score for score, is_true in pairs if is_true == label)
        for label in (True, False)
    ]
    return Measured(len(pairs), area, statistics.pstdev(areas), *means)


def examine(
    claims: Sequence[LabelledClaim], embedder: Embedder | None
) -> list[support.Features | None]:
    """Return the features of `support` for each claim; without an embedder, no cosines."""
    texts = [strip_markers(one.claim) for one in claims]
    evidence = [[support.Evidence.read(text) for text in one.evidence] for one in claims]
    windows = [support.best_windows(*pair) for pair in zip(texts, evidence, strict=True)]
    if embedder is None:
        return [support.features(*own) for own in zip(texts, evidence, windows, strict=True)]
    vectors = _embedded(embedder, [*texts, *(one.text for own in windows for one in own)])
    return [
        support.features(
            text, sources, own, [float(vectors[text] @ vectors[one.text]) for one in own]
        )
        for text, sources, own in zip(texts, evidence, windows, strict=True)
    ]


def support_scores(claims: Sequence[LabelledClaim], embedder: Embedder | None) -> list[float]:
    """Return the score `support` of each claim, in [0, 1]."""
    return [support.score(values) for values in examine(claims, embedder)]


def _embedded(embedder: Embedder, texts: Sequence[str]) -> dict[str, Floats]:
    wanted = sorted(set(texts), key=len)
    return {
        text: unpack(vector)
        for batch in batched(wanted, EMBEDDED_AT_ONCE, strict=False)
        for text, vector in zip(batch, embedder.embed(batch, None), strict=True)
    }
