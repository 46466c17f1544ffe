"""A written answer is held against the subject domains, in every mode, as a draft to check is."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import answer_request, write_files
from tests.conftest import load_folder
from tests.model_server import ModelServer, serving
from tests.verifier_server import serving as verifier_serving

WRONG_LABEL = "Seizures are sudden electrical events in the brain, Asthma (HP:0001250) [1]."
RIGHT = "Seizures are sudden, uncontrolled electrical events in the brain (HP:0001250) [1]."
DOMAIN = """
from docstokg.contracts.check import Consistency, ConsistencyIssue
class Old:
    def expand_seeds(self, graph, seeds, scope, deadline):
        return seeds
    def metadata_filter(self, part):
        return None
    def check_consistency(self, draft, graph, scope, deadline):
        at = draft.find("uncontrolled")
        if at < 0:
            return Consistency(ok=True)
        said = "the word is out of use"
        issue = ConsistencyIssue(code="old_word", message=said, start=at, end=at + 20)
        return Consistency(ok=False, issues=(issue,))
    def notes(self, part):
        return [f"{n} of {len(part.entities) > 0} " + "long " * 60 for n in range(12)]
OLD = Old()
"""


def answered(client: Any, **fields: Any) -> dict[str, Any]:
    body = answer_request("What are seizures?", 100, "gpt-4o-mini", **fields)
    reply: dict[str, Any] = client.post("/v1/answer", json=body).json()
    assert reply["answer"].startswith("Seizures"), reply
    return reply


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with serving(ModelServer(answer=RIGHT)) as server:
        yield server


@pytest.fixture
def client(small_store: Path, client_for: Callable[..., Any], model: ModelServer) -> Any:
    return client_for(small_store, llm_base_url=model.url, llm_api_key="k")


@pytest.mark.parametrize("verbosity", ["snippet", "full", "graph"])
def test_another_terms_id_is_told_in_every_mode(
    client: Any, model: ModelServer, verbosity: str
) -> None:
    model.answer = WRONG_LABEL
    reply = answered(client, verbosity=verbosity)
    (sentence,) = reply["grounding"]["sentences"]
    assert sentence["verdict"] == "unverified"
    assert "id_label_mismatch" in sentence["reasons"]
    assert reply["grounding"]["grounded"] is None
    assert any("'Asthma' is not a name of HP:0001250" in warning for warning in reply["warnings"])
    assert reply["diagnostics"]["degraded_reasons"] == []


def test_right_answers_stay_and_checks_need_the_graph(client: Any, model: ModelServer) -> None:
    right = answered(client)
    assert [sentence["verdict"] for sentence in right["grounding"]["sentences"]] == ["supported"]
    assert right["warnings"] == []
    model.answer = WRONG_LABEL
    off = answered(client, kg_expansion={"enabled": False})
    assert not any("disagrees" in warning for warning in off["warnings"])


def test_an_id_outside_graph_and_sources_is_reported(client: Any, model: ModelServer) -> None:
    made_up = RIGHT.replace("HP:0001250", "HP:9999999")
    model.answer = made_up
    reply = answered(client)
    assert any("HP:9999999 is not in the graph" in warning for warning in reply["warnings"])
    assert "id_not_in_source" in reply["grounding"]["sentences"][0]["reasons"]


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("error_500", "failed (500)."),
        ("error_503", "failed (503)."),
        ("not_json", "sent something that is not JSON."),
        ("wrong_shape", "answered something that is no completion."),
    ],
)
def test_a_500_is_said_of_a_500_only(
    client: Any, model: ModelServer, mode: str, sentence: str
) -> None:
    model.mode = mode
    body = {"query": "What are seizures?", "synthesis": {"enabled": True}}
    failed = client.post("/v1/answer", json={**body, "budget": {"max_tokens_gen": 100}})
    assert f"Model gpt-4o-mini {sentence}" in failed.json()["warnings"]


def test_without_valid_markers_confidence_follows_similarity_alone(
    client: Any, model: ModelServer
) -> None:
    unmarked = "Seizures are sudden, uncontrolled electrical events in the brain."
    model.answer = unmarked
    reply = answered(client)
    assert reply["answer"] == unmarked
    parts = reply["confidence_parts"]
    assert (parts["retrieval"], parts["sources"]) == (0.0, 0.0)
    assert 0 < reply["confidence"] <= 0.5
    assert reply["confidence"] == pytest.approx(0.3 * parts["similarity"], abs=1e-3)


def test_named_times_sum_up_and_include_slow_verifiers(
    small_store: Path, client_for: Callable[..., Any], model: ModelServer
) -> None:
    with verifier_serving() as verifier:
        client = client_for(
            small_store,
            llm_base_url=model.url,
            llm_api_key="k",
            verifier=f"{verifier.url}/predict",
        )
        checks = []
        for delay_s in (0.0, 0.7):
            verifier.mode, verifier.delay_s = ("slow" if delay_s else "ok"), delay_s
            model.answer = RIGHT.replace("sudden, uncontrolled", "uncontrolled, sudden")
            timings = answered(client)["diagnostics"]["timings_ms"]
            total = timings.pop("total")
            assert sum(timings.values()) == pytest.approx(total, rel=0.05, abs=5)
            checks.append(timings["answer_check"])
    assert 0 < checks[0] < checks[1]
    assert checks[1] >= 700


def test_a_domain_of_somebody_elses_acts_too(
    small_store: Path,
    client_for: Callable[..., Any],
    model: ModelServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "old_words.py").write_text(DOMAIN)
    info = tmp_path / "old_words-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: old-words\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[docstokg.domains]\nold = old_words:OLD\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "old_words", raising=False)
    # The sources say it in other words: what they say word for word is theirs.
    model.answer = RIGHT.replace("sudden, uncontrolled", "uncontrolled, sudden")
    settings = {"llm_base_url": model.url, "llm_api_key": "k"}
    without = answered(client_for(small_store, **settings))
    assert without["warnings"] == []
    reply = answered(client_for(small_store, domains=("ontology", "old"), **settings))
    assert any("the word is out of use" in warning for warning in reply["warnings"])
    assert reply["grounding"]["grounded"] is None
    assert [note[:9] for note in reply["notes"]] == [f"{n} of True" for n in range(10)]
    assert {len(note) for note in reply["notes"]} == {200}
    assert without["notes"] == []


PAGES = """
The choir rehearses on Tuesdays at half past seven in the chapel. Newcomers sing for Odile Marchand
first. Scores are lent for a deposit of 15 francs. Nobody may record a concert.

The kiln reaches 1,240 degrees after nine hours. It must not be opened above 90 degrees. Glazes with
lead are banned. Ruben Alm holds the second key.

The last ferry leaves Holm at 22:40, on Sundays at 20:15. Bicycles travel free, dogs for two crowns.
In winds over 20 m/s nothing sails. Lost property is kept for six weeks.

The fund granted 48,000 pounds to the bird survey; Mira Castell abstained. The first report is due
in March. Unspent money goes back. Salaries are not paid from it.
"""
ASKED = {
    "When does everybody practise?": "Tuesdays", "Who auditions new voices?": "Odile Marchand",
    "What does borrowing the music cost?": "15 francs", "Am I allowed to tape it?": "record",
    "How hot does it get?": "1,240", "When is it safe to look inside?": "90 degrees",
    "Is anything forbidden in there?": "banned", "Who else could unlock it?": "Ruben Alm",
    "What is the latest way home at the weekend?": "20:15", "May my dog come along?": "two crowns",
    "Do they go in a storm?": "20 m/s", "How long until my umbrella is thrown away?": "six weeks",
    "Who did not vote?": "Mira Castell", "What was given away?": "48,000 pounds",
    "What happens to what is left over?": "goes back", "Could I hire somebody?": "Salaries",
}  # fmt: skip


def test_every_question_to_a_page_reaches_a_model(
    tmp_path: Path, cache_dir: Path, client_for: Callable[..., Any], model: ModelServer
) -> None:
    pages = (page.replace("\n", " ") for page in PAGES.strip().split("\n\n"))
    files = {f"{number}.txt": page for number, page in enumerate(pages)}
    folder = write_files(tmp_path / "pages", files)
    load_folder(folder, tmp_path / "pages.sqlite", cache_dir)
    model.answer = "It is so [1]."
    client = client_for(tmp_path / "pages.sqlite", llm_base_url=model.url, llm_api_key="k")
    for question, fact in ASKED.items():
        body = answer_request(question, 100, "gpt-4o-mini")
        assert client.post("/v1/answer", json=body).json()["answer"] == model.answer
        assert fact in model.requests[-1][1]["messages"][1]["content"], question
    assert len(model.requests) == len(ASKED) == 16
