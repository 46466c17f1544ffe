"""Thirty follow-ups with a model's rewrites: twenty good, seven that drop words, three wrong."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.answer.condense import keeps_words
from tests.builders import answer_request, body_of, write_files
from tests.conftest import load_folder
from tests.model_server import ModelServer, serving
from tests.workflow.test_follow_ups import condensing_to, turns

pytestmark = pytest.mark.timeout(300)
DATA = json.loads(Path(__file__).with_name("rewrites.json").read_text("utf-8"))
FOLLOW_UPS = DATA["follow_ups"]
MODELS = ("house-model", "extractive")
LEAST_RIGHT = 27


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serving() as server:
        yield server


@pytest.fixture
def clients(client_for: Any, model: ModelServer, tmp_path: Path, cache_dir: Path) -> dict[str, Any]:
    options = {"llm_base_url": model.url, "models": MODELS, "llm_fallback_model": "extractive"}
    clients = {}
    for name, files in DATA["files"].items():
        store = tmp_path / f"{name}.sqlite"
        load_folder(write_files(tmp_path / name, files), store, cache_dir)
        clients[name] = client_for(store, **options)
    return clients


def reply_to(client: Any, model: ModelServer, row: dict[str, str]) -> dict[str, Any]:
    model.answer = condensing_to(row["rewrite"], " ")
    history = turns(row["question"], row["reply"])
    budget = {"max_tokens_gen": 200, "timeout_s": 25}
    body = answer_request(row["message"], model="house-model", history=history, budget=budget)
    return body_of(client.post("/v1/answer", json=body))


def test_rewrites_find_documents_and_keep_the_subject(
    clients: dict[str, Any], model: ModelServer
) -> None:
    right: Counter[str] = Counter()
    for row in FOLLOW_UPS:
        reply = reply_to(clients[row["corpus"]], model, row)
        right[row["kind"]] += reply["citations"][0]["doc_id"] == row["document"]
        if row["kind"] == "drops":
            assert reply["query_used"] == row["message"]
            chosen = reply["answer"][slice(*reply["best_span"].values())]
            assert row["wrong"] not in chosen or not row["wrong"]
    print(dict(right))
    assert Counter(row["kind"] for row in FOLLOW_UPS) == {"good": 20, "drops": 7, "roles": 3}
    assert right.total() >= LEAST_RIGHT
    # The other seven rows cite documents about both subjects.
    assert right["drops"] == Counter(row["kind"] for row in FOLLOW_UPS)["drops"]


@pytest.mark.parametrize(
    ("message", "question", "is_kept"),
    [
        ("No, I meant the quality officer.", "Who is the head of sales?", False),
        ("And the tall ones?", "How much do the tall lamps cost?", True),
        ("And the red one?", "How much does the red lamp cost?", True),
        ("Who runs it?", "Who runs the mill?", True),
        ("When was it painted?", "In which year did they paint the mill?", True),
        ("Und im Winter?", "Was kostet die Halle im Winter?", True),
        ("Und im Winter?", "Was kostet die Halle im Sommer?", False),
    ],
)
def test_a_rewrite_keeps_the_stems_of_content_words(
    message: str, question: str, *, is_kept: bool
) -> None:
    assert keeps_words(question, message) == is_kept


def test_a_value_of_the_conversation_alone_is_reported(
    clients: dict[str, Any], model: ModelServer
) -> None:
    row = next(row for row in FOLLOW_UPS if row["message"] == "And the crane?")
    answer = "It is allowed to take boats of up to 77 tonnes [1]."
    model.answer = condensing_to(row["rewrite"], answer)
    history = turns("What does the lift carry?", "Boats of up to 77 tonnes [1].")
    body = answer_request(row["message"], model="house-model", history=history)
    reply = body_of(clients["marina"].post("/v1/answer", json=body))
    assert reply["confidence"] <= 0.49
    assert "No cited source contains: 77 (sentence 1)." in reply["warnings"]
