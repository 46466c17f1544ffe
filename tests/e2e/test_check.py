"""`/v1/check` over HTTP and from the shell: sentences, ids, relations and refusals."""

import json
from pathlib import Path

import pytest

from docstokg.contracts.check import CheckResponse
from tests.builders import keyed


@pytest.fixture
def client(small_client):
    return small_client


def check(client, status=200, **request):
    response = client.post("/v1/check", json=request)
    assert response.status_code == status, response.text
    if status == 200:
        CheckResponse.model_validate(response.json())
    return response.json()


@pytest.fixture
def cited(client):
    citations = client.post("/v1/search", json={"query": "What are seizures?"}).json()["citations"]
    return {row["chunk_id"]: row for row in citations}


def test_a_draft_with_citations(client, cited) -> None:
    text = (
        "A seizure may follow a high fever in young children [1]. "
        "Anticonvulsants reduce the frequency of seizures by 80 percent [1]. "
        "Dravet syndrome begins with prolonged febrile seizures [2]. It is rare [7]."
    )
    body = check(
        client,
        text=text,
        citations=[
            {"rank": rank, "uuid": cited[name]["uuid"]}
            for rank, name in enumerate(("seizure", "dravet"), 1)
        ],
    )
    rows = body["grounding"]["sentences"]
    first, second, third, fourth = ((row["verdict"], row["reasons"]) for row in rows)
    assert first == ("supported", [])
    assert second == ("unverified", ["number_not_in_source"])
    assert third[0] in ("supported", "unverified")
    assert fourth == ("uncited", [])
    assert body["grounding"]["invalid_citations"] == ["[7]"]
    assert body["grounding"]["grounded"] is False
    assert body["consistency"] == {"ok": True, "issues": []}
    assert body["diagnostics"]["timings_ms"]["total"] > 0
    assert body["diagnostics"]["embedding"] == "all-MiniLM-L6-v2-onnx-int8"


def test_a_part_of_a_passage_is_the_source(client, cited) -> None:
    sentence = "Most patients carry a variant of SCN1A."
    start = cited["dravet"]["char_start"] + cited["dravet"]["snippet"].index(sentence)
    place = {"char_start": start, "char_end": start + len(sentence)}
    citation = {"rank": 1, "uuid": cited["dravet"]["uuid"], **place}
    body = check(client, text=f"{sentence[:-1]} [1].", citations=[citation])
    assert [row["verdict"] for row in body["grounding"]["sentences"]] == ["supported"]


SOURCES = [
    {"id": "fees.txt", "title": "Fees", "text": "A berth costs 40 euros a night. Dogs are free."},
    {"text": "The office opens at nine.\nIt is closed on Sundays."},
]


def test_texts_sent_along_are_the_sources(client) -> None:
    draft = (
        "A berth costs 40 euros a night [1]. It is closed on Sundays [2]. Dogs cost 2 euros [1]."
    )
    body = check(client, text=draft, sources=SOURCES)
    rows = body["grounding"]["sentences"]
    assert [row["verdict"] for row in rows] == ["supported", "supported", "unverified"]
    assert [row["span"]["uuid"] for row in rows] == ["fees.txt", "source-2", "fees.txt"]
    span = rows[1]["span"]
    text = SOURCES[1]["text"]
    assert text[span["char_start"] : span["char_end"]] == "It is closed on Sundays."
    assert rows[2]["reasons"] == ["number_not_in_source"]
    assert body["grounding"]["grounded"] is None
    assert body["consistency"] is None
    assert check(client, text=draft, sources=SOURCES, namespace="default")["consistency"]


def test_without_markers_every_text_is_a_source(client) -> None:
    body = check(client, text="It is closed on Sundays. Dogs are free.", sources=SOURCES)
    rows = body["grounding"]["sentences"]
    assert [(row["verdict"], row["citations"]) for row in rows] == [
        ("supported", [2]), ("supported", [1]),
    ]  # fmt: skip
    assert body["grounding"]["grounded"] is True


def test_the_last_of_fifty_texts_is_a_source(client) -> None:
    texts = [{"text": f"Shed {n} is painted green. It has {n} doors."} for n in range(49)]
    body = check(client, text="Dogs are free.", sources=[*texts, SOURCES[0]])
    assert [row["citations"] for row in body["grounding"]["sentences"]] == [[50]]
    assert body["grounding"]["grounded"] is True


def test_mixed_source_kinds_and_large_sources_are_refused(client) -> None:
    def five(words: int) -> dict:
        return {"text": "x y z", "sources": [{"text": "word " * words}] * 5}

    both = {"text": "x y", "sources": SOURCES, "citations": [{"rank": 1, "uuid": "u"}]}
    for request, code in ((both, "sources_and_citations"), (five(20_000), "sources_too_large")):
        assert check(client, 400, **request)["errors"][0]["code"] == code
    assert check(client, **five(15_000))["grounding"]["grounded"] is None
    assert check(client, 413, **five(24_000))


def test_unreadable_sources_are_named(client) -> None:
    text = "Seizures are electrical events [1]."
    body = check(client, text=text, citations=[{"rank": 1, "uuid": "nobody"}])
    assert body["diagnostics"]["missing"] == ["nobody"]
    assert body["grounding"]["invalid_citations"] == ["[1]"]


def test_hidden_chunks_are_no_sources(small_store, client_for, tmp_path) -> None:
    keys = keyed(tmp_path, {"K": {"namespaces": ["default"], "groups": []}})
    client = client_for(small_store, **keys)
    request = {"text": "Trial 77 tested a secret anticonvulsant against seizures."}
    assert client.post("/v1/check", json=request).status_code == 401
    client.headers["X-Api-Key"] = "K"
    body = check(client, **request)
    assert body["grounding"]["sentences"][0]["verdict"] != "supported"
    assert check(client, 403, text="x y", namespace="other")["code"] == "namespace_not_granted"


def test_from_the_shell(small_store, cache_dir, cited, tmp_path, monkeypatch, capsys) -> None:
    from docstokg_local.cli.commands import app, run

    monkeypatch.setenv("DOCSTOKG_CACHE_DIR", str(cache_dir))
    response, draft = tmp_path / "response.json", tmp_path / "draft.txt"
    response.write_text(json.dumps({"citations": [*cited.values()]}))
    rank = cited["seizure"]["rank"]

    def checked(text: str, file: Path = draft) -> tuple[int, str]:
        draft.write_text(text)
        options = ["--citations", str(response), "--index", f"sqlite:///{small_store}"]
        return run(app, ["check", str(file), *options]), capsys.readouterr().out

    code, output = checked(f"A seizure may follow a high fever in young children [{rank}].")
    assert (code, "supported" in output) == (0, True)
    code, output = checked(f"A seizure may follow 30 drinks [{rank}].")
    assert code == 3
    assert "a number that no cited source contains" in output
    assert "0 of 1 sentence verified" in output
    assert checked("A seizure may follow 30 drinks [99].")[0] == 1
    assert checked("", tmp_path / "absent.txt")[0] == 2
