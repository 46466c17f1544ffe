"""Support score: windows, features, the fitted model, and the command that fits it."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.domain.answer import support
from docstokg.domain.answer.support import Evidence, Features, best_windows, features, score
from docstokg_local.evaluation.claims import LabelledClaim, examine
from tests.conftest import write_corpus
from training.support import Example, by_set, fit, left_out, read_examples, weights_file

FUEL = "Fuel rose to 84 dollars in Norway. Ferries were cheaper. They sail from Bergen each day."
FERRY = "Ferries sail from Bergen. The Hurtigruten line calls at 34 ports."
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
SHARES = st.floats(0, 1)


def support_of(claim: str, *texts: str, cosines: list[float] | None = None) -> float:
    evidence = [Evidence.of(text) for text in texts]
    windows = best_windows(claim, evidence)
    return score(features(claim, evidence, windows, cosines))


@given(TEXTS, st.lists(TEXTS, max_size=3), st.none() | st.lists(st.floats(-1, 1), min_size=1))
def test_the_score_is_in_the_unit_interval(
    claim: str, texts: list[str], cosines: list[float] | None
) -> None:
    assert 0.0 <= support_of(claim, *texts, cosines=cosines) <= 1.0


@given(st.permutations([FUEL, FERRY, "", "Nothing else is known."]))
def test_the_order_of_sources_changes_nothing(texts: list[str]) -> None:
    claim = "Ferries sail from Bergen and fuel rose to 84 dollars"
    assert support_of(claim, *texts) == support_of(claim, FUEL, FERRY, "", "Nothing else is known.")


@given(SHARES, SHARES, SHARES, st.none() | st.floats(-1, 1), st.booleans(), st.integers(1, 200))
def test_the_score_grows_with_either_share(
    low: float, high: float, other: float, cosine: float | None, missing: bool, length: int
) -> None:
    low, high = sorted((low, high))
    tail = (cosine, float(missing), float(missing), float(length))
    assert score(Features(low, other, *tail)) <= score(Features(high, other, *tail))
    assert score(Features(other, low, *tail)) <= score(Features(other, high, *tail))


def test_copied_sentences_score_high_and_empty_sources_nothing() -> None:
    claim = "Fuel rose to 84 dollars in Norway."
    assert support_of(claim, claim, cosines=[1.0]) > 0.94
    assert support_of(claim, claim) > 0.9
    assert support_of(claim) == support_of(claim, "") == support_of(claim, " \n ") == 0.0
    assert support_of("", FUEL) < 0.2
    assert support_of("The moon is made of cheese.", FUEL, cosines=[0.0]) < 0.1


def test_a_changed_number_or_name_lowers_the_score() -> None:
    true = support_of("Fuel rose to 84 dollars in Norway.", FUEL)
    assert support_of("Fuel rose to 48 dollars in Norway.", FUEL) < true - 0.1
    assert support_of("Fuel rose to 84 dollars in Sweden.", FUEL) < true - 0.1
    # 45 is not stated by 450, and 1,200 is 1200.
    assert support_of("A share costs 45.", "A share costs 450.") < support_of(
        "A share costs 450.", "A share costs 450."
    )
    thousand = support_of("It costs 1,200 euros.", "It costs 1200 euros.")
    assert features("It costs 1,200 euros.", [Evidence.of("It costs 1200 euros.")], ()) is None
    assert thousand > support_of("It costs 1,300 euros.", "It costs 1200 euros.") + 0.1


def test_headers_count_for_names_but_are_no_window() -> None:
    claim = "Fridtjof explored Greenland."
    bare, titled = (
        Evidence.of("He explored Greenland."),
        Evidence.of("He explored Greenland.", "Fridtjof"),
    )
    (window,) = best_windows(claim, [titled])
    assert window.text == "He explored Greenland."
    plain = features(claim, [bare], best_windows(claim, [bare]))
    named = features(claim, [titled], [window])
    assert (plain.share, named.share) == (2 / 3, 1.0)
    assert named._replace(share=plain.share) == plain


def test_windows_are_sentences_or_neighbours_of_one_source() -> None:
    claim = "Ferries are cheaper and sail from Bergen"
    evidence = [Evidence.of(FUEL), Evidence.of(FERRY)]
    first, *others = best_windows(claim, evidence, limit=4)
    assert (first.source, first.share) == (0, 1.0)
    assert first.text == "Ferries were cheaper. They sail from Bergen each day."
    assert FUEL[first.start : first.end] == first.text
    assert all(
        evidence[window.source].text[window.start : window.end] == window.text for window in others
    )
    assert [window.share for window in others] == sorted(
        (window.share for window in others), reverse=True
    )
    # The sentence alone precedes the pair that adds nothing.
    (alone,) = best_windows("Ferries sail from Bergen", [evidence[1]], limit=1)
    assert alone.text == "Ferries sail from Bergen."
    assert best_windows(claim, []) == ()


def test_the_committed_model_agrees_with_its_card() -> None:
    model = support.fitted()
    assert tuple(model.weights) == Features._fields
    assert all(model.weights[name] > 0 for name in ("share", "window_share", "cosine"))
    assert all(model.weights[name] < 0 for name in ("name_missing", "number_missing", "length"))
    figures = model.card["auc_left_out"]
    assert isinstance(figures, dict)
    for folder, floor in (("attribution_dev", 0.85), ("wice_dev", 0.76)):
        assert float(figures[folder]["support"].split()[0]) >= floor
    faithbench = figures["faithbench_dev"]
    assert float(faithbench["support"].split()[0]) >= float(faithbench["line"].split()[0])


def examples() -> list[Example]:
    """Claims of three folders whose labels depend on one share; each folder has its own level."""
    rng = random.Random(4)
    claims = []
    for folder, level in (("attribution_dev", 0.2), ("wice_dev", 0.5), ("faithbench_dev", 0.4)):
        for number in range(200):
            share, noise = rng.random() / 2 + level, [rng.random() for _ in range(4)]
            supported = share + rng.gauss(0, 0.05) > level + 0.25
            name, missing, cosine, window = noise
            values = Features(share, window, cosine, float(name > 0.5), float(missing > 0.5), 1.0)
            claims.append(Example(folder, f"{folder}: s{number % 2}", values, supported))
    return claims


def test_the_fit_finds_the_deciding_feature_within_sets() -> None:
    model = fit([example for example in examples() if example.folder != "faithbench_dev"])
    effect = {name: abs(weight) for name, weight in model.weights.items()}
    assert model.weights["share"] == max(effect.values()) > 5 * effect["window_share"]
    assert effect["length"] < 0.01  # equal for all
    figures = left_out(examples())
    assert figures["wice_dev"]["support"].auc > 0.9
    assert figures["faithbench_dev"]["line"].auc > 0.9
    assert set(figures) >= {"wice_dev: s0", "wice_dev: s1", "faithbench_dev"}


def test_the_command_writes_committed_form_in_any_order() -> None:
    claims = examples()
    text = weights_file(claims, left_out(claims))
    committed = Path(support.__file__).with_name("support_weights.json").read_text("utf-8")
    new, old = json.loads(text), json.loads(committed)
    assert new.keys() == old.keys()
    assert new["weights"].keys() == old["weights"].keys()
    assert new["card"].keys() == old["card"].keys()
    assert new["card"]["auc_left_out"]["wice_dev"].keys() == {"line", "no vectors", "support"}
    model = support.Model.model_validate_json(text)
    other = fit([example for example in claims[::-1] if example.folder != "faithbench_dev"])
    assert other.model_copy(update={"card": model.card}) == model


def test_scifact_claims_are_paired_with_each_read_abstract(tmp_path: Path) -> None:
    passages = [{"doc_id": str(n), "text": f"Text number {n} is short."} for n in range(3)]
    question = {
        "id": "7",
        "question": "Text number 0 is short.",
        "gold": ["0", "1"],
        "evidence": [
            {"doc_id": "0", "label": "SUPPORT", "sentences": [0]},
            {"doc_id": "2", "label": "CONTRADICT", "sentences": [0]},
        ],
    }
    write_corpus(tmp_path, {"passages.jsonl": passages, "questions.jsonl": [question]})
    claims = read_examples(tmp_path, None)
    assert [(claim.supported, claim.features.share) for claim in claims] == [
        (True, 1.0),
        (False, pytest.approx(3 / 4)),
        (False, pytest.approx(3 / 4)),
    ]
    assert by_set(claims, support.fitted())[tmp_path.name]["line"].auc == 1.0


def test_markers_of_a_claim_are_no_numbers() -> None:
    claim = LabelledClaim("1", "s", "Ferries sail from Bergen [2].", (FERRY,), supported=True)
    (values,) = examine([claim], None)
    assert (values.share, values.number_missing, values.cosine) == (1.0, 0.0, None)
