"""A verifier's folder: which models it takes, how it reads long sources, and how it is refused."""

from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.onnx.verifier import OnnxVerifier
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Timeout, Unavailable, WrongAnswer
from docstokg.ports import Opinion, Pair
from tests.onnx_files import FLOAT, write_model
from tests.onnx_verifiers import write_verifier
from tests.plans import soon

GATE = "The gate opens at 8 bar."
LONG = "The lamp was painted green. " * 200
BINARY = ["not_entailment", "entailment"]


def opinion(folder: Path, claim: str, *sources: str, threshold: float = 0.5) -> Opinion | None:
    (result,) = OnnxVerifier(folder, threshold).verify([Pair(claim, sources)], soon())
    return result


def supported(folder: Path, claim: str, *sources: str) -> bool:
    result = opinion(folder, claim, *sources)
    return result.supported >= OnnxVerifier(folder, 0.5).threshold


def test_a_long_source_is_read_in_windows(tmp_path: Path) -> None:
    folder = write_verifier(tmp_path, BINARY, card={"max_tokens": 64})
    assert supported(folder, GATE, LONG + GATE + LONG)
    assert not supported(folder, "The gate opens at 9 bar.", LONG + GATE + LONG)


@pytest.mark.parametrize("tokens", [False, True])
def test_a_fixed_length_model_gets_padded_input(tmp_path: Path, tokens: bool) -> None:
    labels = ["entailment", "unsupported"]
    card = {"max_tokens": 64}
    folder = write_verifier(tmp_path, labels, tokens=tokens, card=card, length=64)
    assert supported(folder, GATE, GATE) and supported(folder, GATE, LONG + GATE)
    assert not supported(folder, "The gate opens at 9 bar.", GATE)


def test_claims_over_half_the_input_are_not_judged(tmp_path: Path) -> None:
    folder = write_verifier(tmp_path, BINARY, card={"max_tokens": 64})
    assert opinion(folder, LONG, LONG) is None
    assert opinion(folder, LONG, LONG, GATE) is None


def test_a_word_without_source_makes_token_classifiers_doubt(tmp_path: Path) -> None:
    card: dict[str, Any] = {
        "labels": {"entailment": "supported", "LABEL_1": "unsupported"}, "threshold": 0.9
    }  # fmt: skip
    folder = write_verifier(tmp_path, ["entailment", "LABEL_1"], tokens=True, card=card)
    assert supported(folder, GATE, GATE)
    assert not supported(folder, "The gate opens at 9 bar.", GATE)
    result = opinion(folder, "The gate opens at 9 bar.", GATE)
    assert result.supported < 0.01
    assert OnnxVerifier(folder, 0.5).threshold == pytest.approx(0.1)


def test_the_card_sets_order_labels_and_threshold(tmp_path: Path) -> None:
    card: dict[str, Any] = {"labels": {"yes": "supported", "entailment": "unsupported"}}
    turned = write_verifier(tmp_path / "turned", ["yes", "entailment"], card=card)
    assert not supported(turned, GATE, GATE) and supported(turned, "Nine lamps.", GATE)
    reversed_ = write_verifier(tmp_path / "reversed", BINARY, card={"premise_first": False})
    # The claim is the first text now: each word of the premise must be in the claim.
    assert supported(reversed_, f"{GATE} And more.", GATE)
    assert not supported(reversed_, GATE, f"{GATE} And more.")
    assert opinion(reversed_, LONG + GATE, GATE) is None
    framed = write_verifier(
        tmp_path / "framed", BINARY, card={"premise": "Gate 9 bar: {source}", "threshold": 0.7}
    )
    assert supported(framed, "The gate opens at 9 bar.", GATE)
    assert OnnxVerifier(framed, 0.5).threshold == 0.7
    assert OnnxVerifier(turned, 0.3).threshold == 0.3


def test_only_models_with_a_contradiction_class_report_contradictions(tmp_path: Path) -> None:
    folder = write_verifier(tmp_path, ["contradiction", "entailment"])
    result = opinion(folder, "The gate opens at 9 bar.", GATE)
    assert result.contradicted > 0.9
    binary = opinion(write_verifier(tmp_path / "b", BINARY), GATE, GATE)
    assert binary.contradicted is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.onnx", None, "model.onnx is missing"),
        ("tokenizer.json", None, "tokenizer.json is missing"),
        ("config.json", None, "config.json is missing"),
        ("config.json", "[]", "has no id2label"),
        ("model.onnx", "x", "not a readable model"),
        ("verifier.json", "{", "verifier.json: "),
        ("verifier.json", '{"threshold": 2}', "'threshold'"),
        ("config.json", '{"id2label": {"0": "A", "1": "B"}}', "say in verifier.json which"),
    ],
)
def test_folders_without_a_verifier_are_refused(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    file = write_verifier(tmp_path, BINARY) / name
    file.unlink() if content is None else file.write_text(content)
    verifier = OnnxVerifier(tmp_path, 0.5)
    with pytest.raises(Misconfigured, match=message):
        verifier.warm()
    with pytest.raises(Misconfigured, match=message):
        verifier.verify([Pair(GATE, (GATE,))], soon())


def test_nonsense_of_a_model_is_a_wrong_answer(tmp_path: Path) -> None:
    folder = write_verifier(tmp_path / "many", BINARY)
    write_model(folder / "model.onnx", ["plus", "minus", "zero"])
    with pytest.raises(WrongAnswer, match="2 finite numbers"):
        opinion(folder, GATE, GATE)
    nan = write_verifier(tmp_path / "nan", BINARY, scale=float("nan"))
    with pytest.raises(WrongAnswer):
        opinion(nan, GATE, GATE)
    write_model(folder / "model.onnx", ["plus", "minus"], takes=FLOAT)
    with pytest.raises(Unavailable, match="the verifier model failed"):
        opinion(folder, GATE, GATE)


def test_many_windows_end_in_time(tmp_path: Path) -> None:
    verifier = OnnxVerifier(write_verifier(tmp_path, BINARY, card={"max_tokens": 64}), 0.5)
    verifier.warm()
    with pytest.raises(Timeout):
        verifier.verify([Pair(GATE, (LONG * 50,))] * 12, Deadline.after(0.2))
