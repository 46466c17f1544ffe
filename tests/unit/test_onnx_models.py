"""An operator's own ONNX file: requirements on a reranker, and refusals."""

import shutil
from pathlib import Path

import pytest

from docstokg.adapters.onnx.reranker import OnnxReranker
from docstokg.adapters.onnx.wordpieces import cassette_model
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Timeout, Unavailable
from tests.onnx_files import FLOAT, write_model
from tests.plans import soon


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(cassette_model() / "tokenizer.json", tmp_path / "tokenizer.json")
    return tmp_path


def test_a_reranker_scores_each_passage_on_its_own(folder: Path) -> None:
    reranker = OnnxReranker(str(write_model(folder / "cross.onnx", ["plus"])))
    passages = [f"passage {'word ' * count}" for count in range(11)]
    scores = reranker.rank("query", passages, soon())
    assert list(scores) == sorted(scores)
    assert reranker.rank("query", passages[::-1], soon()) == scores[::-1]
    assert reranker.model == "cross"
    with pytest.raises(Timeout):
        reranker.rank("query", passages, Deadline.after(0.0))


def test_files_that_are_not_models_are_refused(folder: Path) -> None:
    (folder / "torn.onnx").write_bytes(b"no model")
    with pytest.raises(Misconfigured, match="readable"):
        OnnxReranker(str(folder / "torn.onnx")).rank("a", ["b"], soon())
    with pytest.raises(Misconfigured, match="missing"):
        OnnxReranker(str(folder / "absent.onnx")).rank("a", ["b"], soon())


def test_a_model_failing_on_the_way_is_unavailable(folder: Path) -> None:
    broken = OnnxReranker(str(write_model(folder / "float.onnx", ["plus"], takes=FLOAT)))
    with pytest.raises(Unavailable, match="the reranker float failed"):
        broken.rank("a", ["b"], soon())
