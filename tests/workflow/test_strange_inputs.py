"""Documents as strangers send them, from the file to the answer."""

from pathlib import Path

import pytest

from docstokg.adapters.onnx.minilm import MODEL
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.loading.stores import stores_of
from tests.builders import settings_at, write_files
from tests.strange_inputs import INPUTS

# Its store is loaded once, not by each worker.
pytestmark = pytest.mark.xdist_group("strange-inputs")
BUILT_IN = {
    "synthesis": {"enabled": True, "model": "extractive"},
    "budget": {"max_tokens_gen": 300, "timeout_s": 20},
}


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, cache_dir: Path
) -> dict[str, tuple[str, list[str]]]:
    """Load each input into a namespace of its own; the answers and the notes of the loads."""
    home = tmp_path_factory.mktemp("strange")
    # as without the extra `languages`
    settings = settings_at(home / "store.sqlite", cache_dir=cache_dir, embed_model=MODEL)
    wiring = Wiring(settings, Telemetry(None, lambda line: None))
    stores, notes = stores_of(wiring), {}
    for number, (name, case) in enumerate(INPUTS.items()):
        folder = write_files(home / f"in{number}", case.files)
        rejects = RejectLog()
        load([folder], LoadOptions(f"n{number}"), stores, rejects)
        assert not rejects.count, (name, rejects.first)
        notes[name] = rejects.notes
    workflow = LocalWorkflow(wiring)
    results = {}
    for number, (name, case) in enumerate(INPUTS.items()):
        request = {**BUILT_IN, "query": case.question, "namespace": f"n{number}"}
        body = submit(workflow, request).body
        grounding = body["grounding"] or {"grounded": None}
        assert grounding["grounded"] or not case.contains, (name, body["answer"])
        results[name] = str(body["answer"]), notes[name]
    wiring.close()
    return results


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_is_answered_with_its_right_value(
    answers: dict[str, tuple[str, list[str]]], name: str
) -> None:
    case, (answer, notes) = INPUTS[name], answers[name]
    assert all(phrase in answer for phrase in case.contains), answer
    assert not [phrase for phrase in case.silent if phrase in answer], answer
    assert any(case.note in note for note in notes) or not case.note, notes
