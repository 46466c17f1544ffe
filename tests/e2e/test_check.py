"""`/v1/check` over HTTP and from the shell: sentences, ids, relations, and what it refuses."""

import json

import pytest

from docstokg.contracts.check import CheckResponse


@pytest.fixture
def client(small_store, client_for):
    return client_for(small_store)


def check(client, status=200, **request):
    response = client.post("/v1/check", json=request)
    assert response.status_code == status, response.text
    if status == 200:
        CheckResponse.model_validate(response.json())
    return response.json()


@pytest.fixture
def cited(client):
    found = client.post("/v1/search", json={"query": "What are seizures?"}).json()["citations"]
    return {row["chunk_id"]: row for row in found}


def test_a_draft_with_citations(client, cited) -> None:
    text = (
        "Seizures are sudden, uncontrolled electrical events in the brain [1]. "
        "Anticonvulsants reduce the frequency of seizures by 80 percent [1]. "
        "Dravet syndrome begins with prolonged febrile seizures [2]. It is rare [7]."
    )
    body = check(
        client,
        text=text,
        citations=[
            {"rank": 1, "uuid": cited["seizure"]["uuid"]},
            {"rank": 2, "uuid": cited["dravet"]["uuid"]},
        ],
    )
    verdicts = {
        text[row["start"] : row["end"]]: (row["verdict"], tuple(row["reasons"]))
        for row in body["grounding"]["sentences"]
    }
    first, second, third, fourth = verdicts.values()
    assert first == ("supported", ())
    assert second == ("unsupported", ("number_not_in_source",))
    assert third[0] in ("supported", "weak")
    assert fourth == ("uncited", ())
    assert body["grounding"]["invalid_citations"] == ["[7]"]
    assert not body["grounding"]["grounded"]
    assert body["consistency"] == {"ok": True, "issues": []}
    assert body["diagnostics"]["timings_ms"]["total"] > 0


def test_what_cannot_be_read_is_named(client) -> None:
    text = "Seizures are electrical events [1]."
    body = check(client, text=text, citations=[{"rank": 1, "uuid": "nobody"}])
    assert body["diagnostics"]["missing"] == ["nobody"]
    assert body["grounding"]["invalid_citations"] == ["[1]"]


def test_hidden_chunks_are_no_sources(small_store, client_for, tmp_path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"K": {"sub": "a", "namespaces": ["default"], "groups": []}}))
    client = client_for(small_store, auth="keys", keys_file=str(keys))
    request = {"text": "Trial 77 tested a secret anticonvulsant against seizures."}
    assert client.post("/v1/check", json=request).status_code == 401
    client.headers["X-Api-Key"] = "K"
    body = check(client, **request)
    assert body["grounding"]["sentences"][0]["verdict"] != "supported"
    assert check(client, 403, text="x y", namespace="other")["code"] == "namespace_not_granted"


def test_from_the_shell(small_store, cache_dir, client, tmp_path, monkeypatch, capsys) -> None:
    from docstokg_local.cli.commands import app, run

    monkeypatch.setenv("DOCSTOKG_CACHE_DIR", str(cache_dir))
    response = client.post("/v1/search", json={"query": "What are seizures?"}).json()
    (tmp_path / "response.json").write_text(json.dumps(response))
    rank = next(row["rank"] for row in response["citations"] if row["chunk_id"] == "seizure")
    draft = tmp_path / "draft.txt"
    store = ["--index", f"sqlite:///{small_store}", "--graph", f"sqlite:///{small_store}"]
    arguments = ["check", str(draft), "--citations", str(tmp_path / "response.json"), *store]
    draft.write_text(f"A seizure may follow a high fever in young children [{rank}].")
    assert run(app, arguments) == 0
    assert "supported" in capsys.readouterr().out
    draft.write_text(f"A seizure may follow 30 drinks [{rank}].")
    assert run(app, arguments) == 1
    assert "a number the source does not have" in capsys.readouterr().out
    assert run(app, ["check", str(tmp_path / "absent.txt"), *store]) == 2
