"""The numbers of `docstokg eval --answers`, against definitions written out."""

from pathlib import Path

import pytest

from docstokg.errors import LoadError
from docstokg_local.evaluation.answers import (
    WrittenAnswer,
    by_level,
    f1,
    is_right,
    judged,
    read_answers,
    rouge_l,
    summary,
    word_share,
    words,
)
from docstokg_local.evaluation.calibration import roc_area
from tests.conftest import write_corpus


def test_content_words_leave_out_markers_and_small_words() -> None:
    assert words("The Cat [1], 2 of [2, 3] them!") == ["cat", "2", "them"]


def test_hand_counted_scores() -> None:
    assert f1("red cat sat", "red dog sat down") == pytest.approx(2 * 2 / 7)
    assert rouge_l("sat red", "red dog sat down") == pytest.approx(2 * 1 / 6)
    assert word_share(["red sat", "down"], "red dog sat down") == 0.75
    assert (f1("", "red"), rouge_l("red", ""), word_share([], "red")) == (0.0, 0.0, 0.0)


def test_short_answers_must_match_whole_long_answers_half() -> None:
    assert is_right("He was born in New  York [1].", "New York")
    assert not is_right("York is new.", "New York")
    assert is_right("one two three", "one two three four five six")
    assert not is_right("one two", "one two three four five six")


def test_a_response_is_judged_by_its_citations() -> None:
    reference = WrittenAnswer(id="q", question="why?", answer="red cat", evidence=("red cat sits",))
    citations = [
        {"rank": 1, "cited": True, "snippet": "a red cat sits", "score": 0.8},
        {"rank": 2, "cited": True, "snippet": "dogs", "score": 0.4},
        {"rank": 3, "cited": False, "snippet": "x", "score": 0.1},
    ]
    body = {
        "answer": "The red cat [1][2].",
        "citations": citations,
        "grounding": {"sentences": [{"verdict": "supported"}], "total_citations": 2},
        "confidence": 0.6,
        "confidence_level": "medium",
    }
    row = judged(reference, body)
    assert (row["f1"], row["words"], row["cited"], row["right"]) == (1.0, 2, [1, 2], True)
    assert (row["citation_precision"], row["citation_recall"]) == (0.5, 1.0)
    assert (row["verdicts"], row["mean_score"]) == ({"supported": 1}, 0.6)
    silent = body | {"answer": "", "grounding": None, "confidence": 0.0, "confidence_level": "low"}
    nothing = judged(reference, silent | {"citations": []})
    assert (nothing["abstained"], nothing["f1"], nothing["right"]) == (True, 0.0, False)
    both = summary([row, nothing])
    assert (both["f1"], both["abstained"], both["citation_precision"]) == (0.5, 0.5, 0.5)
    assert by_level([row, nothing]) == {"medium": {"n": 1, "right": 1.0}}


def test_questions_with_answers_replace_a_missing_answers_file(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "question": "who?", "gold": ["d"], "answer": "me", "evidence": {"d": [1]}},
        {"id": "2", "question": "when?", "gold": ["d"]},
    ]
    write_corpus(tmp_path, {"questions.jsonl": rows})
    assert [(row.id, row.evidence) for row in read_answers(tmp_path, None)] == [("1", ())]
    (tmp_path / "answers.jsonl").write_text('{"id": "3", "question": "why?", "answer": "so"}\n')
    assert [row.id for row in read_answers(tmp_path, 5)] == ["3"]
    (tmp_path / "answers.jsonl").write_text('{"id": "3", "question": "why?"}\n')
    with pytest.raises(LoadError, match=r"answers\.jsonl:1"):
        read_answers(tmp_path, None)
    with pytest.raises(LoadError, match="no questions with reference answers"):
        read_answers(tmp_path / "absent", None)


def test_roc_area_by_hand() -> None:
    values, right = [0.2, 0.4, 0.4, 0.9], [False, True, False, True]
    assert roc_area(values, right) == (1 + 0.5 + 2) / 4 + 0.0
    assert roc_area([0.5], [True]) is None
