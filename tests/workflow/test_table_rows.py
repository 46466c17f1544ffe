"""A question for one cell is answered with the row that holds it, and no other, or not at all."""

from pathlib import Path

from docstokg.adapters.onnx.minilm import MODEL
from docstokg.contracts import Json
from docstokg.domain.answer.notices import is_abstention
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.engine.workflow import LocalWorkflow
from tests.builders import settings_at, write_files
from tests.conftest import load_folder
from tests.table_inputs import CellQuestion, about_other_rows, files_and_questions
from tests.workflow.test_strange_inputs import BUILT_IN

RIGHT = 68
"""Least number of right answers of 80; 80 on 2026-11-26."""
SILENT = 50
"""Least number of abstentions of 80 questions with another table's row; 54 on 2026-11-29."""


def test_questions_for_a_cell_quote_its_row_alone(tmp_path: Path, cache_dir: Path) -> None:
    files, questions = files_and_questions()
    assert (len(files), len(questions)) == (40, 80)
    store = tmp_path / "store.sqlite"
    folder = write_files(tmp_path / "in", files)
    report = load_folder(folder, store, cache_dir, embed_model=MODEL)
    assert report.rejected == 0
    # as without the extra `languages`
    settings = settings_at(store, cache_dir=cache_dir, embed_model=MODEL)
    wiring = Wiring(settings, Telemetry(None, lambda line: None))
    workflow = LocalWorkflow(wiring)
    wrong = [question for question in questions if not _quotes_its_row(workflow, question)]
    near = about_other_rows(questions)
    answered = [query for query in near if not is_abstention(_asked(workflow, query)["answer"])]
    wiring.close()
    assert len(questions) - len(wrong) >= RIGHT, wrong
    assert len(near) - len(answered) >= SILENT, answered


def _asked(workflow: LocalWorkflow, query: str) -> Json:
    return submit(workflow, {**BUILT_IN, "query": query}).body


def _quotes_its_row(workflow: LocalWorkflow, question: CellQuestion) -> bool:
    body = _asked(workflow, question.question)
    answer, cited = (
        body["answer"],
        [citation for citation in body["citations"] if citation["cited"]],
    )
    return (
        question.row in answer
        and question.value in answer
        and not any(other in answer for other in question.others)
        and {citation["doc_id"] for citation in cited} == {question.file}
        and body["grounding"]["grounded"] is True
    )
