"""The verbosity benchmark measures each question with each verbosity and writes both files."""

import csv
import sys
from pathlib import Path
from typing import Any

from benchmarks.verbosity import COUNTERS, FIELDS, VERBOSITIES, measure, write
from docstokg_local.evaluation.retrieval import Question
from tests.builders import ran


def test_each_question_is_measured_with_each_verbosity(
    small_store: Path, settings_for: Any, tmp_path: Path
) -> None:
    questions = [
        Question(id=str(number), question=text, gold=("d",))
        for number, text in enumerate(("What are seizures?", "Which gene causes epilepsy?"))
    ]
    rows = measure(settings_for(small_store), "default", questions, VERBOSITIES)
    assert [(row["verbosity"], row["question"]) for row in rows] == [
        (verbosity, number) for verbosity in VERBOSITIES for number in ("0", "1")
    ]
    assert all(row["status"] == 200 and row["ms"] > 0 for row in rows)
    graph = [row for row in rows if row["verbosity"] == "graph"]
    assert all(row["nodes"] > 0 and row["expanded"] > 0 for row in graph)
    assert not any(row[name] for row in rows if row not in graph for name in COUNTERS)
    text = write(rows, "Title", tmp_path / "verbosity")
    with (tmp_path / "verbosity.csv").open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert tuple(records[0]) == FIELDS
    assert len(records) == len(rows)
    assert text.count("\n| ") == 1 + len(VERBOSITIES)
    assert (tmp_path / "verbosity.md").read_text("utf-8") == text


def test_missing_questions_are_one_line(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "benchmarks.verbosity", "--data", tmp_path)
    done = ran(*command, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "contains no questions" in done.stderr and 'MORE="--data FOLDER"' in done.stderr
