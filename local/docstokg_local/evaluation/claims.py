"""Measures on labelled claims."""

import statistics
from collections.abc import Sequence
from itertools import batched, islice
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, ValidationError

from docstokg.contracts import Json
from docstokg.contracts.model import Many
from docstokg.contracts.records import Scope
from docstokg.domain.answer import support
from docstokg.domain.answer.citations import strip_markers
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import Floats, unpack
from docstokg.errors import LoadError, Misconfigured
from docstokg.loading.readers.lines import Line
from docstokg.observability import Telemetry
from docstokg.ports import Embedder, Verifier
from docstokg.settings import VERIFIERS, Settings
from docstokg.usecases.run import beginning
from docstokg.usecases.verification import Claim, verify
from docstokg.wiring import Wiring
from docstokg_local.cli.printing import counted, echo
from docstokg_local.evaluation.calibration import roc_area, roc_area_error
from docstokg_local.evaluation.retrieval import read_lines

SUPPORTED = ("supported", "complete")
EMBEDDED_AT_ONCE = 512
SUPPORT = "support"
# Threshold of `support` for its balanced accuracy.
SUPPORTED_FROM = 0.5
# Seconds for one claim, more than for a request.
CLAIM_S = 60.0


class _Row(Line):
    id: Annotated[str, Field(min_length=1)]
    claim: Annotated[str, Field(min_length=1)]
    evidence: Many[str]
    supported: bool | None = None
    label: str | None = None
    support: str | None = None
    set: str | None = None


class LabelledClaim(NamedTuple):
    """A claim, its cited texts, and whether humans found it supported."""

    id: str
    set: str
    claim: str
    evidence: tuple[str, ...]
    supported: bool


class Measured(NamedTuple):
    """AUC and its standard error."""

    auc: float
    error: float


def read_claims(folder: Path, limit: int | None = None) -> list[LabelledClaim]:
    """Read `claims*.jsonl` of a folder; `set` defaults to the folder's name.

    Raises `LoadError` for an invalid line, a claim without a label, and a folder without claims.
    """

    def parse(value: Json) -> LabelledClaim:
        row, supported = _Row.model_validate(value), None
        if (label := row.label or row.support) is not None:
            supported = label.casefold() in SUPPORTED
        if row.supported is not None:
            supported = row.supported
        if supported is None:
            raise LoadError(f"{folder}: claim {row.id!r} has neither supported, label nor support")
        return LabelledClaim(row.id, row.set or folder.name, row.claim, row.evidence, supported)

    claims = list(islice(read_lines(sorted(folder.glob("claims*.jsonl")), parse), limit))
    if not claims:
        raise LoadError(f"{folder} contains no claims (claims*.jsonl)")
    return claims


def balanced_accuracy(called: Sequence[bool], supported: Sequence[bool]) -> float | None:
    """Return the mean share of supported and of unsupported claims called correctly.

    None if all claims have the same label.
    """
    parts = [
        [call == label for call, is_true in zip(called, supported, strict=True) if is_true == label]
        for label in (True, False)
    ]
    return statistics.fmean(map(statistics.fmean, parts)) if all(parts) else None


def measure(scores: Sequence[float], supported: Sequence[bool]) -> Measured | None:
    """Return the AUC of scores with its standard error; None if all claims have the same label."""
    area = roc_area(scores, supported)
    return None if area is None else Measured(area, roc_area_error(area, supported))


def examine(
    claims: Sequence[LabelledClaim], embedder: Embedder | None
) -> list[support.Features | None]:
    """Return each claim's features of `support`, None without a source sentence.

    Without an embedder, no cosines.
    """
    texts = [strip_markers(claim.claim) for claim in claims]
    evidence = [[support.Evidence.of(text) for text in claim.evidence] for claim in claims]
    windows = [support.best_windows(*pair) for pair in zip(texts, evidence, strict=True)]
    inputs = list(zip(texts, evidence, windows, strict=True))
    if embedder is None:
        return [support.features(*row) for row in inputs]
    vectors = _embedded(
        embedder, [*texts, *(window.text for claim_windows in windows for window in claim_windows)]
    )
    return [
        support.features(*row, [float(vectors[row[0]] @ vectors[window.text]) for window in row[2]])
        for row in inputs
    ]


def support_scores(claims: Sequence[LabelledClaim], embedder: Embedder | None) -> list[float]:
    """Return each claim's score `support` in [0, 1], 0 without a source sentence.

    Without an embedder, the cosine is the mean of the fit.
    """
    return [support.score(values) for values in examine(claims, embedder)]


def _embedded(embedder: Embedder, texts: Sequence[str]) -> dict[str, Floats]:
    wanted = sorted(set(texts), key=len)
    return {
        text: unpack(vector)
        for batch in batched(wanted, EMBEDDED_AT_ONCE)
        for text, vector in zip(batch, embedder.embed(batch, None), strict=True)
    }


def evaluate_claims(
    folder: Path, claims: Sequence[LabelledClaim], name: str, settings: Settings
) -> Json:
    """Return the report of `eval --verifier`: AUC and balanced accuracy, pooled and by set.

    `name`: `support`, or a value of DOCSTOKG_VERIFIER; others raise `Misconfigured`. Claims without
    a decision are `undecided`; `errors`: failed calls.
    """
    if name == SUPPORT:
        scores: Sequence[float | None] = support_scores(claims, Wiring(settings).embedder())
        verifier_name, threshold, errors = SUPPORT, SUPPORTED_FROM, 0
    else:
        verifier = verifier_named(name, settings)
        scores, errors = verifier_scores(claims, verifier)
        verifier_name, threshold = verifier.name, verifier.threshold
    scored = [(c, s) for c, s in zip(claims, scores, strict=True) if s is not None]
    names = sorted({claim.set for claim in claims})
    parts = {"all": scored}
    if len(names) > 1:
        parts |= {set_name: [row for row in scored if row[0].set == set_name] for set_name in names}
    return {
        "set": folder.resolve().name,
        "verifier": verifier_name,
        "threshold": threshold,
        "undecided": len(claims) - len(scored),
        "errors": errors,
        "runs": [_run(set_name, rows, threshold) for set_name, rows in parts.items()],
    }


def verifier_named(name: str, settings: Settings) -> Verifier:
    """Return the verifier of a value of DOCSTOKG_VERIFIER; raise `Misconfigured` for others."""
    values = {**settings.model_dump(), "verifier": name}
    try:
        verifier = Wiring(Settings.model_validate(values)).verifier()
    except ValidationError as wrong:
        raise Misconfigured(f"--verifier {name!r} must be {SUPPORT}, {VERIFIERS}") from wrong
    assert verifier is not None
    return verifier


def verifier_scores(
    claims: Sequence[LabelledClaim], verifier: Verifier
) -> tuple[list[float | None], int]:
    """Return each claim's probability of support (None: undecided), and number of failed calls."""
    begin, scores, errors = beginning(Telemetry(level="WARNING"), CLAIM_S), [], 0
    for claim in claims:
        call = begin(claim.id, Scope(namespace="default", groups=None))
        verification = verify(
            call, verifier, [Claim(claim.claim, claim.evidence)], Deadline.after(CLAIM_S)
        )
        (decision,), errors = verification.decisions, errors + (verification.problem is not None)
        scores.append(None if decision is None else decision.support)
    return scores, errors


def _run(name: str, rows: Sequence[tuple[LabelledClaim, float]], threshold: float) -> Json:
    truth = [claim.supported for claim, _ in rows]
    measured = measure([score for _, score in rows], truth)
    return {
        "name": name,
        "n": len(rows),
        "supported": sum(truth),
        "auc": measured and round(measured.auc, 4),
        "auc_error": measured and round(measured.error, 4),
        "balanced_accuracy": balanced_accuracy([s >= threshold for _, s in rows], truth),
    }


def show_claims(report: Json) -> None:
    """Print the report as a table."""
    echo(
        f"{report['set']}: {report['verifier']}, supported from {report['threshold']:g}, "
        f"{counted(report['undecided'], 'claim')} without an opinion"
    )
    for run in report["runs"]:
        auc, accuracy = (
            "-" if run[key] is None else f"{run[key]:.3f}" for key in ("auc", "balanced_accuracy")
        )
        error = "" if run["auc_error"] is None else f" +- {run['auc_error']:.3f}"
        echo(f"{run['name']:<24} n {run['n']:>5}  AUC {auc}{error}  balanced accuracy {accuracy}")
