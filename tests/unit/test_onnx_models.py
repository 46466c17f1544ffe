"""Operators' own ONNX files: what a reranker and an NLI model must be, and how they are refused."""

import json
import shutil
from pathlib import Path

import pytest

from docstokg.adapters.onnx_nli import OnnxNli
from docstokg.adapters.onnx_reranker import OnnxReranker
from docstokg.adapters.wordpieces import cassette_model
from docstokg.errors import Misconfigured, Timeout, WrongAnswer
from tests.onnx_files import write_model

LABELS = {"0": "CONTRADICTION", "1": "neutral", "2": "Entailment"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(cassette_model() / "tokenizer.json", tmp_path / "tokenizer.json")
    (tmp_path / "config.json").write_text(json.dumps({"id2label": LABELS}))
    return tmp_path


def test_a_reranker_scores_each_passage_on_its_own(folder: Path) -> None:
    reranker = OnnxReranker(str(write_model(folder / "cross.onnx", ["plus"])))
    passages = [f"passage {'word ' * count}" for count in range(11)]
    scores = reranker.rank("query", passages, 10.0)
    assert list(scores) == sorted(scores)
    assert reranker.rank("query", passages[::-1], 10.0) == scores[::-1]
    assert reranker.model == "cross"
    with pytest.raises(Timeout):
        reranker.rank("query", passages, 0.0)


def test_classes_are_read_from_the_config(folder: Path) -> None:
    entails = OnnxNli(str(write_model(folder / "a.onnx", ["minus", "zero", "plus"])))
    assert entails.judge([("premise", "claim")] * 5, 10.0) == ((1.0, 0.0),) * 5
    contradicts = OnnxNli(str(write_model(folder / "b.onnx", ["plus", "zero", "minus"])))
    assert contradicts.judge([("premise", "claim")], 10.0) == ((0.0, 1.0),)
    with pytest.raises(Timeout):
        entails.judge([("premise", "claim")], 0.0)


def test_what_is_no_such_model_is_refused(folder: Path) -> None:
    with pytest.raises(WrongAnswer):
        OnnxNli(str(write_model(folder / "two.onnx", ["plus", "minus"]))).judge([("a", "b")], 9.0)
    (folder / "torn.onnx").write_bytes(b"no model")
    with pytest.raises(Misconfigured, match="readable"):
        OnnxNli(str(folder / "torn.onnx")).judge([("a", "b")], 9.0)
    (folder / "config.json").write_text(json.dumps({"id2label": {"0": "x"}}))
    with pytest.raises(Misconfigured, match="id2label"):
        OnnxNli(str(write_model(folder / "c.onnx", ["plus"]))).judge([("a", "b")], 9.0)
    with pytest.raises(Misconfigured, match="missing"):
        OnnxNli(str(folder / "absent.onnx")).judge([("a", "b")], 9.0)
