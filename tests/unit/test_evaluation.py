"""The numbers of `docstokg eval`, against definitions written out."""

import math

import pytest

from docstokg.errors import LoadError, Misconfigured
from docstokg_local.evaluation.retrieval import metrics, read_questions, runs_of, shown_settings


def test_a_hand_counted_ranking():
    measures = metrics(["x", "a", "y", "b", "z", "w", "c"], {"a", "b", "c", "d"})
    gain = 1 / math.log2(3) + 1 / math.log2(5) + 1 / math.log2(8)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5)
    assert measures["ndcg@10"] == pytest.approx(gain / ideal)
    assert (measures["recall@5"], measures["recall@10"]) == (0.5, 0.75)
    assert (measures["all@5"], measures["all@10"], measures["mrr"]) == (0.0, 0.0, 0.5)


def test_runs_change_settings_and_never_break_the_first():
    runs = runs_of(["graph", "dense", "mmr", "rrf", "down:graph", "graph"])
    assert [run.name for run in runs] == [
        "full",
        "no-graph",
        "no-dense",
        "only-dense",
        "no-mmr",
        "rrf",
        "down:graph",
    ]
    assert (runs[0].settings, runs[0].request, runs[0].down) == ({}, {}, None)
    assert runs[2].settings == {"channels": ("bm25", "splade")}
    assert runs[3].settings == {"channels": ("dense",)}
    assert runs[2].request == runs[3].request == {"kg_expansion": {"enabled": False}}
    with pytest.raises(Misconfigured, match="down:nothing"):
        runs_of(["down:nothing"])


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"id": "1", "question": "What?", "gold": []}',
        '{"id": "1", "gold": ["a"]}',
        '{"id": "1", "question": "W", "gold": ["a"]}',
    ],
)
def test_wrong_questions_are_told_by_line(tmp_path, line: str):
    (tmp_path / "questions.jsonl").write_text(
        '{"id": "0", "question": "What is it?", "gold": ["a"], "extra": 1}\n' + line + "\n"
    )
    with pytest.raises(LoadError, match=r"questions\.jsonl:2"):
        read_questions(tmp_path, None)
    assert [question.id for question in read_questions(tmp_path, 1)] == ["0"]


def test_a_report_holds_no_secret_and_no_address():
    from docstokg.settings import Settings

    settings = Settings(index_password="hidden", index_url="https://user@host", fusion="rrf")
    published = shown_settings(settings)
    assert published["fusion"] == "rrf"
    assert "hidden" not in str(published) and "host" not in str(published)
