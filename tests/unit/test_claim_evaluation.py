"""Measures on labelled claims: reading, AUC with its error, balanced accuracy."""

import json
import random
from pathlib import Path

import pytest

from docstokg.errors import LoadError
from docstokg_local.evaluation.claims import balanced_accuracy, measure, read_claims


def test_claims_are_read_with_any_of_the_three_labels(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "claim": "a", "evidence": ["x", "y"], "supported": True, "set": "S"},
        {"id": "2", "claim": "b", "evidence": [], "label": "partially_supported"},
        {"id": "3", "claim": "c", "evidence": ["z"], "support": "Complete"},
        {"id": "4", "claim": "d", "evidence": ["z"], "label": "supported", "question": "q"},
    ]
    (tmp_path / "claims.jsonl").write_text("\n".join(map(json.dumps, rows)))
    claims = read_claims(tmp_path)
    assert [one.supported for one in claims] == [True, False, True, True]
    assert [one.set for one in claims] == ["S", *[tmp_path.name] * 3]
    assert claims[0].evidence == ("x", "y")
    assert len(read_claims(tmp_path, 2)) == 2
    (tmp_path / "claims_more.jsonl").write_text('{"id": "5", "claim": "e", "evidence": []}\n')
    with pytest.raises(LoadError, match="'5' has neither"):
        read_claims(tmp_path)
    with pytest.raises(LoadError, match="no claims"):
        read_claims(tmp_path / "absent")


def test_balanced_accuracy_by_hand() -> None:
    assert balanced_accuracy([True, True, False], [True, False, False]) == (1 + 0.5) / 2
    assert balanced_accuracy([True], [True]) is None


def test_the_bootstrap_error_is_that_of_theory() -> None:
    rng = random.Random(3)
    labels = [n % 2 == 0 for n in range(400)]
    scores = [rng.gauss(0.0, 1.0) for _ in labels]
    measured = measure(scores, labels)
    assert measured is not None
    # Hanley and McNeil (1982) for an AUC of one half: sqrt((n + 1) / (12 m n)) with 200 and 200.
    assert measured.error == pytest.approx((401 / (12 * 200 * 200)) ** 0.5, rel=0.1)
    assert abs(measured.auc - 0.5) < 3 * measured.error
    best = measure([float(label) for label in labels], labels)
    assert best is not None
    assert (best.auc, best.error, best.supported, best.unsupported) == (1.0, 0.0, 1.0, 0.0)
    assert measure([0.5, 0.7], [True, True]) is None
