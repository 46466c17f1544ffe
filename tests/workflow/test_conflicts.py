"""Where two passages disagree the response says so, and no side is told as the only one."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import load_folder, write_corpus

FILES = {
    "policy-2021.md": "---\ntitle: Leave policy\ndate: 2021-03-01\n---\n"
    "Employees of Zorwick accrue 22 days of annual leave.\n",
    "policy-2024.md": "---\ntitle: Leave policy\ndate: 2024-03-01\n---\n"
    "Employees of Zorwick accrue 25 days of annual leave.\n",
    "rules.md": "---\ntitle: Canteen rules\n---\nThe Zorwick canteen opens at seven.\n",
    "rules-new.md": "---\ntitle: Canteen\nsupersedes: rules.md\n---\n"
    "The canteen of Zorwick is run by the staff council and sells soup.\n",
}
PAGES = [
    {"id": "a", "doc_id": "a", "title": "Dam", "text": "Krell dam is 81 metres high."},
    {"id": "b", "doc_id": "b", "title": "Guide", "text": "Krell dam is 96 metres high."},
    {"id": "c", "doc_id": "c", "title": "Lake", "text": "Vorne dam is 40 metres high."},
    {"id": "d", "doc_id": "d", "title": "Fishing", "text": "Fishing is allowed at Krell dam."},
    {"id": "e", "doc_id": "e", "title": "Bans", "text": "Fishing is not allowed at Krell dam."},
    {"id": "f", "doc_id": "f", "title": "Walls", "text": "Krell dam is 81 m high and 12 m wide."},
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    folder = tmp_path_factory.mktemp("conflicts")
    write_corpus(folder / "corpus", {"chunks.jsonl": PAGES})
    for name, text in FILES.items():
        (folder / "corpus" / name).write_text(text, encoding="utf-8")
    load_folder(folder / "corpus", folder / "store.sqlite", cache_dir)
    return folder / "store.sqlite"


def told(reply: dict[str, Any]) -> set[tuple[str, str, str]]:
    """Give each conflict as its kind and the texts of its spans; each span holds."""
    shown = {c["uuid"]: c for c in reply["citations"]}
    for one in reply["conflicts"]:
        assert [shown[span["uuid"]]["rank"] for span in one["spans"]] == one["ranks"]
    texts = [
        [
            shown[at["uuid"]]["full_text"][
                at["char_start"] - shown[at["uuid"]]["char_start"] :
            ][: at["char_end"] - at["char_start"]]
            for at in one["spans"]
        ]
        for one in reply["conflicts"]
    ]  # fmt: skip
    return {
        (one["kind"], *(" ".join(text.split()) for text in pair))
        for one, pair in zip(reply["conflicts"], texts, strict=True)
    }


def ask(client: Any, question: str, **more: Any) -> dict[str, Any]:
    body = {
        "query": question,
        "verbosity": "full",
        "synthesis": {"enabled": True, "model": "extractive"},
        "budget": {"max_tokens_gen": 200},
        **more,
    }
    return dict(client.post("/v1/answer", json=body).json())


def test_other_values_and_denials_are_told_and_both_sides_are_quoted(
    store: Path, client_for: Any
) -> None:
    reply = ask(client_for(store), "How high is Krell dam?")
    found = told(reply)
    high = {("value", "Krell dam is 96 metres high.", "Krell dam is 81 metres high.")}
    assert found & (high | {(kind, two, one) for kind, one, two in high})
    assert not [pair for pair in found if "Vorne" in str(pair)]
    assert "81" in reply["answer"]
    assert "96" in reply["answer"]
    assert all(one["verdict"] == "supported" for one in reply["grounding"]["sentences"])
    assert any(one.startswith("Passages disagree: [") for one in reply["warnings"])
    fishing = ask(client_for(store), "Is fishing allowed at Krell dam?")
    assert "negation" in {kind for kind, *_ in told(fishing)}


def test_what_is_replaced_is_told_and_not_quoted(store: Path, client_for: Any) -> None:
    client = client_for(store)
    policies = {"filter": {"doc_id": ["policy-2021.md", "policy-2024.md"]}}
    question = "How many days of annual leave do employees of Zorwick accrue?"
    leave = ask(client, question, **policies)
    newer = "Employees of Zorwick accrue 25 days of annual leave."
    assert ("superseded", newer, newer.replace("25", "22")) in told(leave)
    assert "25 days" in leave["answer"]
    assert "22 days" not in leave["answer"]
    then = ask(client, question.replace("?", " in 2021?"), **policies)
    assert ("superseded", newer, newer.replace("25", "22")) not in told(then)
    canteen = ask(client, "When does the Zorwick canteen open?")
    replaced = [one for one in canteen["conflicts"] if one["kind"] == "superseded"]
    names = {c["rank"]: c["doc_id"] for c in canteen["citations"]}
    documents = {names[one["ranks"][0]]: names[one["ranks"][1]] for one in replaced}
    assert documents["rules-new.md"] == "rules.md"
    for first, second in (one["ranks"] for one in replaced):
        assert f"[{first}] replaces [{second}]" in " ".join(canteen["warnings"])
    assert "seven" not in canteen["answer"]


def test_a_search_looks_at_the_first_five(store: Path, client_for: Any) -> None:
    search = {"query": "How high is Krell dam?", "verbosity": "full"}
    reply = client_for(store).post("/v1/search", json=search).json()
    assert "value" in {kind for kind, *_ in told(reply)}
    assert max(rank for one in reply["conflicts"] for rank in one["ranks"]) <= 5
    few = client_for(store).post("/v1/search", json={**search, "top_k": 1}).json()
    assert few["conflicts"] == []
