"""What is timed of the graph's step: which questions, and whether all of them were answered."""

import json
from pathlib import Path

import pytest

from benchmarks.graph_scale import taken
from benchmarks.graph_step import questions, report

ASKED = ["Who?", "What?", "Where?", "When?"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [json.dumps({"question": question}) for question in ASKED]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines), "utf-8")
    return tmp_path


def test_questions_are_taken_evenly_and_the_others_warm_up(folder: Path) -> None:
    assert questions(folder, 2) == (["Who?", "Where?"], ["What?", "When?"])


def test_a_larger_graph_is_asked_the_same_questions_one_by_one(folder: Path) -> None:
    assert taken([folder, folder], 2) == ["Who?", "Where?", "Who?", "Where?"]


def test_both_sides_stand_beside_each_other_with_their_share(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report({"at a": {"set": [4.0, 8.0, 6.0]}, "here": {"set": [2.0, 4.0, 3.0]}}, "clock")
    header, _, row, every = capsys.readouterr().out.splitlines()
    assert "at a, clock ms p50" in header
    assert row == "| set | 3 | 6.0 | 6.0 | 3.0 | 3.0 | 0.50 |"
    assert every.startswith("| all | 3 |")


def test_a_question_without_an_answer_of_the_graph_is_no_time() -> None:
    late = {"set": [float("inf")]}
    with pytest.raises(SystemExit, match="1 questions got no answer"):
        report({"at a": late, "here": {"set": [1.0]}}, "CPU")
