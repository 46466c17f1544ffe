"""Measures on labelled claims: reading, AUC with its error, balanced accuracy."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from docstokg.errors import LoadError, Misconfigured
from docstokg.settings import Settings
from docstokg_local.cli.commands import app
from docstokg_local.evaluation.claims import (
    measure,
    read_claims,
    verifier_named,
)
from tests.conftest import write_corpus
from tests.onnx_verifiers import write_verifier


def test_claims_are_read_with_any_of_three_labels(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "claim": "a", "evidence": ["x", "y"], "supported": True, "set": "S"},
        {"id": "2", "claim": "b", "evidence": [], "label": "partially_supported"},
        {"id": "3", "claim": "c", "evidence": ["z"], "support": "Complete"},
        {"id": "4", "claim": "d", "evidence": ["z"], "label": "supported", "question": "q"},
    ]
    write_corpus(tmp_path, {"claims.jsonl": rows})
    claims = read_claims(tmp_path)
    assert [claim.supported for claim in claims] == [True, False, True, True]
    assert [claim.set for claim in claims] == ["S", *[tmp_path.name] * 3]
    assert claims[0].evidence == ("x", "y")
    assert len(read_claims(tmp_path, 2)) == 2
    write_corpus(tmp_path, {"claims_more.jsonl": [{"id": "5", "claim": "e", "evidence": []}]})
    with pytest.raises(LoadError, match="'5' has neither"):
        read_claims(tmp_path)
    with pytest.raises(LoadError, match="no claims"):
        read_claims(tmp_path / "absent")


def test_the_bootstrap_error_is_that_of_theory() -> None:
    rng = random.Random(3)
    labels = [n % 2 == 0 for n in range(400)]
    scores = [rng.gauss(0.0, 1.0) for _ in labels]
    measured = measure(scores, labels)
    # Hanley and McNeil (1982) for an AUC of one half: sqrt((n + 1) / (12 m n)) with 200 and 200.
    assert measured.error == pytest.approx((401 / (12 * 200 * 200)) ** 0.5, rel=0.1)
    assert abs(measured.auc - 0.5) < 3 * measured.error
    best = measure([float(label) for label in labels], labels)
    assert (best.auc, best.error) == (1.0, 0.0)
    assert measure([0.5, 0.7], [True, True]) is None


def test_a_verifier_is_measured_on_labelled_claims(tmp_path: Path) -> None:
    rows = [
        {"id": str(n), "claim": f"Gate {n} opens.", "set": "even" if n % 2 == 0 else "odd",
         "evidence": [f"Gate {n if n < 6 else 99} opens slowly."], "supported": n < 7}
        for n in range(10)
    ]  # fmt: skip
    write_corpus(tmp_path, {"claims.jsonl": rows})
    folder = write_verifier(tmp_path / "model", ["not_entailment", "entailment"])
    report = reported(tmp_path, f"onnx:{folder}")
    assert (report["verifier"], report["threshold"]) == ("onnx:model", 0.5)
    assert (report["undecided"], report["errors"]) == (0, 0)
    assert [run["name"] for run in report["runs"]] == ["all", "even", "odd"]
    whole = report["runs"][0]
    # Six of seven supported claims and all three others are called correctly.
    assert whole["balanced_accuracy"] == pytest.approx((6 / 7 + 1) / 2)
    assert whole["auc"] == pytest.approx((6 + 0.5) / 7, abs=0.001)


def reported(folder: Path, name: str) -> dict[str, Any]:
    file = folder / "report.json"
    outcome = CliRunner().invoke(
        app, ["eval", str(folder), "--verifier", name, "--json", str(file)]
    )
    assert outcome.exit_code == 0, outcome.output
    assert "AUC" in outcome.output and "balanced accuracy" in outcome.output
    return json.loads(file.read_text("utf-8"))


def test_the_built_in_score_is_measured_like_verifiers(tmp_path: Path) -> None:
    texts = ("The gate opens at eight bar.", "A heron was seen near the mill.")
    rows = [
        {"id": str(n), "claim": texts[0], "evidence": [texts[n % 2]], "supported": n % 2 == 0}
        for n in range(6)
    ]
    write_corpus(tmp_path, {"claims.jsonl": rows})
    report = reported(tmp_path, "support")
    assert (report["verifier"], report["runs"][0]["auc"], report["errors"]) == ("support", 1.0, 0)


def test_a_verifier_that_is_none_is_refused(tmp_path: Path) -> None:
    row = {"id": "1", "claim": "a", "evidence": ["x"], "supported": True}
    write_corpus(tmp_path, {"claims.jsonl": [row]})
    with pytest.raises(Misconfigured, match="must be support, onnx:FOLDER"):
        verifier_named("best", Settings())
    outcome = CliRunner().invoke(app, ["eval", str(tmp_path), "--verifier", "x", "--ablate", "mmr"])
    assert outcome.exit_code == 2
    dead = CliRunner().invoke(
        app, ["eval", str(tmp_path), "--verifier", "http://127.0.0.1:9/predict"]
    )
    assert dead.exit_code == 1 and "1 claim without an opinion" in dead.output
