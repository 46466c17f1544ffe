"""Confidence: right replies of a strong model, wrong citations, and sources that agree."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.builders import answer_request, write_files
from tests.conftest import load_folder
from tests.model_server import ModelServer, passages_of, serving

REPLIES: list[dict[str, str]] = json.loads(
    Path(__file__).with_name("strong_replies.json").read_text("utf-8")
)
"""Twelve documents, each with a question and the right reply in other words, without marker."""

NOTES = {
    "bridge": (
        "When did the Tessel bridge open?",
        [
            "The Tessel bridge opened in 1931.",
            "In 1931 the Tessel bridge was opened to traffic.",
            "The Tessel bridge has been open since 1931, when the mayor cut the ribbon.",
            "Opened in 1931, the Tessel bridge replaced a ferry.",
            "The opening of the Tessel bridge was celebrated in 1931 with fireworks.",
        ],
    ),
    "pump": (
        "How many litres does the Orkel pump deliver per minute?",
        [
            "The Orkel pump delivers 85 litres per minute.",
            "At full speed the Orkel pump delivers 85 litres per minute.",
            "The Orkel pump is rated at 85 litres per minute.",
            "We measured the Orkel pump: it delivers 85 litres per minute.",
            "The data sheet of the Orkel pump says 85 litres per minute.",
        ],
    ),
    "warden": (
        "Who is the warden of Castle Ennor?",
        [
            "The warden of Castle Ennor is Ruth Pascoe.",
            "Ruth Pascoe is the warden of Castle Ennor.",
            "Castle Ennor has a new warden, Ruth Pascoe.",
            "Questions go to the warden of Castle Ennor, Ruth Pascoe.",
            "Ruth Pascoe has been warden of Castle Ennor since spring.",
        ],
    ),
}
OTHER = "The meeting of the garden club was moved to Thursday. Tea is served at four."


def noted(folder: Path, texts: dict[str, str]) -> Path:
    return write_files(folder, {f"{name}.md": text for name, text in texts.items()})


def answer_of(client: Any, question: str, model: str, namespace: str = "default") -> dict[str, Any]:
    body = answer_request(question, model=model, namespace=namespace)
    return client.post("/v1/answer", json=body).json()


def of_scripted_model(request: dict[str, Any], *, is_right: bool) -> str:
    """Return the reply to the question of a prompt, with the marker of its or another passage."""
    prompt = request["messages"][-1]["content"]
    case = next(case for case in REPLIES if f"Question: {case['question']}" in prompt)
    ranks = {text: rank for rank, text in passages_of(request)}
    right_rank = next(rank for text, rank in ranks.items() if case["text"][:60] in text)
    other = next(rank for rank in ranks.values() if rank != right_rank)
    return f"{case['reply'].rstrip('.')} [{right_rank if is_right else other}]."


def test_right_replies_are_trusted_less_when_wrongly_cited(
    tmp_path: Path, cache_dir: Path, client_for: Callable[..., Any]
) -> None:
    texts = {case["id"]: f"# {case['title']}\n\n{case['text']}\n" for case in REPLIES}
    load_folder(noted(tmp_path / "corpus", texts), tmp_path / "s.sqlite", cache_dir)
    values: dict[bool, list[float]] = {}
    for is_right in (True, False):

        def reply(request: dict[str, Any], is_right: bool = is_right) -> str:
            return of_scripted_model(request, is_right=is_right)

        with serving(ModelServer(answer=reply)) as model:
            client = client_for(tmp_path / "s.sqlite", llm_base_url=model.url, llm_api_key="k")
            answers = [answer_of(client, case["question"], "gpt-4o-mini") for case in REPLIES]
            assert len(model.requests) == len(REPLIES)
        values[is_right] = [answer["confidence"] for answer in answers]
        assert all(answer["grounding"]["grounded"] is None for answer in answers)
    lower = sum(wrong < right for right, wrong in zip(values[True], values[False], strict=True))
    print("right", values[True], "wrong", values[False])
    assert median(values[True]) >= 0.5
    assert lower >= 10


@pytest.mark.parametrize("topic", NOTES)
def test_five_agreeing_sources_are_not_below_one(
    topic: str, tmp_path: Path, cache_dir: Path, client_for: Callable[..., Any]
) -> None:
    question, notes = NOTES[topic]
    store = tmp_path / "s.sqlite"
    for namespace, count in (("one", 1), ("five", 5)):
        texts = {f"note-{place}": text for place, text in enumerate(notes[:count])}
        folder = noted(tmp_path / namespace, {**texts, "garden": OTHER})
        load_folder(folder, store, cache_dir, namespace=namespace)
    client = client_for(store)
    single, five = (answer_of(client, question, "extractive", name) for name in ("one", "five"))
    print(single["answer"], single["confidence"], five["answer"], five["confidence"])
    assert five["confidence"] >= single["confidence"]
