"""Cited replies of a model: inventions are named in a warning, true replies seldom are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.builders import answer_request, write_files
from tests.conftest import load_folder
from tests.model_server import ModelServer, passages_of, serving

TOPICS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("cited_inventions.json").read_text("utf-8")
)


def warned(client: Any, model: ModelServer, topic: dict[str, Any], claim: str) -> bool:
    """Send the claim as the model's reply, cited to its document; return whether it warns."""

    def reply(request: dict[str, Any]) -> str:
        body = topic["text"].split("\n\n", 1)[1][:40]
        rank = next(rank for rank, text in passages_of(request) if body in text)
        return f"{claim.rstrip('.')} [{rank}]."

    model.answer = reply
    body = answer_request(topic["question"], model="gpt-4o-mini")
    response = client.post("/v1/answer", json=body).json()
    warnings = [text for text in response["warnings"] if "No cited source contains" in text]
    (sentence,) = response["grounding"]["sentences"]
    missing = [reason for reason in sentence["reasons"] if reason.endswith("_not_in_source")]
    assert bool(warnings) == bool(missing)
    assert response["confidence"] <= 0.49 or not warnings
    return bool(warnings)


def test_inventions_warn_and_true_replies_seldom(
    tmp_path: Path, cache_dir: Path, client_for: Callable[..., Any]
) -> None:
    folder = write_files(tmp_path / "corpus", {topic["name"]: topic["text"] for topic in TOPICS})
    load_folder(folder, tmp_path / "s.sqlite", cache_dir)
    counts = {}
    with serving(ModelServer()) as model:
        client = client_for(tmp_path / "s.sqlite", llm_base_url=model.url, llm_api_key="k")
        for kind in ("inventions", "true"):
            replies = [(topic, claim) for topic in TOPICS for claim in topic[kind]]
            assert len(replies) == 40
            counts[kind] = sum(warned(client, model, *reply) for reply in replies)
    print(counts)
    assert counts["inventions"] >= 36
    assert counts["true"] <= 4
