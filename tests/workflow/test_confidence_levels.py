"""Confidence: right replies of a strong model, wrong citations, and sources that agree."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.builders import write_files, written
from tests.conftest import load_folder
from tests.model_server import ModelServer, serving

REPLIES: list[dict[str, str]] = json.loads(
    Path(__file__).with_name("strong_replies.json").read_text("utf-8")
)
"""Twelve documents, each with a question and the right reply in other words, without marker."""
PASSAGE = re.compile(r"<<<PASSAGE (\d+)\n(.*?)\nPASSAGE \1>>>", re.DOTALL)

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


def ask(client: Any, question: str, model: str, namespace: str = "default") -> dict[str, Any]:
    body = written(question, model=model, namespace=namespace)
    return dict(client.post("/v1/answer", json=body).json())


def of_scripted_model(asked: dict[str, Any], *, is_right: bool) -> str:
    """Return the reply to the question of a prompt, with the marker of its or another passage."""
    prompt = asked["messages"][-1]["content"]
    one = next(one for one in REPLIES if f"Question: {one['question']}" in prompt)
    ranks = {text: rank for rank, text in PASSAGE.findall(prompt)}
    own = next(rank for text, rank in ranks.items() if one["text"][:60] in text)
    other = next(rank for rank in ranks.values() if rank != own)
    return f"{one['reply'].rstrip('.')} [{own if is_right else other}]."


def test_right_replies_are_trusted_and_the_same_replies_cited_wrongly_less(
    tmp_path: Path, cache_dir: Path, client_for: Callable[..., Any]
) -> None:
    texts = {one["id"]: f"# {one['title']}\n\n{one['text']}\n" for one in REPLIES}
    load_folder(noted(tmp_path / "corpus", texts), tmp_path / "s.sqlite", cache_dir)
    values: dict[bool, list[float]] = {}
    for is_right in (True, False):

        def reply(asked: dict[str, Any], is_right: bool = is_right) -> str:
            return of_scripted_model(asked, is_right=is_right)

        with serving(ModelServer(answer=reply)) as model:
            client = client_for(tmp_path / "s.sqlite", llm_base_url=model.url, llm_api_key="k")
            found = [ask(client, one["question"], "gpt-4o-mini") for one in REPLIES]
            assert len(model.requests) == len(REPLIES)
        values[is_right] = [one["confidence"] for one in found]
        assert all(one["grounding"]["grounded"] is None for one in found)
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
    one, five = (ask(client, question, "extractive", name) for name in ("one", "five"))
    print(one["answer"], one["confidence"], five["answer"], five["confidence"])
    assert five["confidence"] >= one["confidence"]
