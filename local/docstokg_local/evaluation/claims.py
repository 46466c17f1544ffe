"""Measures of a verifier or of the score `support` on claims that people labelled."""

import random
import statistics
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError

from docstokg.contracts.model import Many
from docstokg.contracts.records import Scope
from docstokg.errors import LoadError, Misconfigured
from docstokg.loading.readers.lines import Line
from docstokg.observability import Telemetry
from docstokg.ports import Verifier
from docstokg.settings import VERIFIERS, Settings
from docstokg.usecases.run import beginning
from docstokg.usecases.verification import Claim, Decision, verify
from docstokg.wiring import Wiring
from docstokg_local.cli.printing import counted, say
from docstokg_local.evaluation.calibration import roc_area
from docstokg_local.evaluation.retrieval import read_lines

SUPPORTED = ("supported", "complete")
DRAWS = 500
SEED = 20261125
CLAIM_S = 60.0
"""For one claim; a measurement may wait longer than a request."""


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


def verifier_named(name: str, settings: Settings) -> Verifier:
    """Return the verifier of a value of DOCSTOKG_VERIFIER; `Misconfigured` for any other name."""
    values = {**settings.model_dump(), "verifier": name}
    try:
        made = Wiring(Settings.model_validate(values)).verifier()
    except ValidationError as wrong:
        raise Misconfigured(f"--verifier {name!r} must be {VERIFIERS}") from wrong
    assert made is not None
    return made


def evaluate_claims(
    folder: Path, claims: Sequence[LabelledClaim], verifier: Verifier, telemetry: Telemetry
) -> dict[str, Any]:
    """Return the report of `eval --verifier`: AUC and balanced accuracy, pooled and by set.

    Each claim is verified by itself, with the windows that `respond` would send. Claims without an
    opinion count as `undecided` and are left out of the measures; `errors`: failed calls.
    """
    decided: list[tuple[LabelledClaim, Decision]] = []
    begin, errors = beginning(telemetry, CLAIM_S), 0
    for claim in claims:
        call = begin(claim.id, Scope(namespace="default", groups=None))
        made = verify(call, verifier, [Claim(claim.claim, claim.evidence)], CLAIM_S)
        (decision,), errors = made.decisions, errors + made.degraded
        if decision is not None:
            decided.append((claim, decision))
    names = sorted({claim.set for claim in claims})
    parts = {"all": decided}
    if len(names) > 1:
        parts |= {name: [row for row in decided if row[0].set == name] for name in names}
    return {
        "set": folder.resolve().name,
        "verifier": verifier.name,
        "threshold": verifier.threshold,
        "undecided": len(claims) - len(decided),
        "errors": errors,
        "runs": [_run(name, rows) for name, rows in parts.items()],
    }


def _run(name: str, rows: Sequence[tuple[LabelledClaim, Decision]]) -> dict[str, Any]:
    truth = [claim.supported for claim, _ in rows]
    measured = measure([decision.support for _, decision in rows], truth)
    called = [decision.verdict == "supported" for _, decision in rows]
    return {
        "name": name,
        "n": len(rows),
        "supported": sum(truth),
        "auc": measured and round(measured.auc, 4),
        "auc_error": measured and round(measured.error, 4),
        "balanced_accuracy": balanced_accuracy(called, truth),
    }


def show_claims(report: dict[str, Any]) -> None:
    """Print the report as a table."""
    say(
        f"{report['set']}: {report['verifier']}, supported from {report['threshold']:g}, "
        f"{counted(report['undecided'], 'claim')} without an opinion"
    )
    for run in report["runs"]:
        auc, accuracy = (
            "-" if run[key] is None else f"{run[key]:.3f}" for key in ("auc", "balanced_accuracy")
        )
        error = "" if run["auc_error"] is None else f" +- {run['auc_error']:.3f}"
        say(f"{run['name']:<24} n {run['n']:>5}  AUC {auc}{error}  balanced accuracy {accuracy}")
