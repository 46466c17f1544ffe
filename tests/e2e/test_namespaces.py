"""The namespace of a request that names none, on every surface, for callers of several tenants."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docstokg.domain.identity import chunk_uuid
from tests.builders import answer_request, body_of, keyed, settings_at, tool_call
from tests.conftest import load_folder, opened, write_corpus
from tests.embedded_store import PLAIN

TENANTS = {"acme-7": "quokka", "birch-3": "axolotl", "cedar-5": "narwhal"}
"""Namespaces, and a word that only texts of that namespace contain."""
HIDDEN = "pangolin"
"""A word that only passages of `acme-7` for the group `staff` contain."""

KEYS: dict[str, dict[str, Any]] = {
    key: {"sub": "same", "namespaces": namespaces, "groups": groups}
    for key, namespaces, *groups in (
        ("acme", ["acme-7"]),
        ("acme-staff", ["acme-7"], "staff"),
        ("birch", ["birch-3"], "staff"),
        ("two", ["acme-7", "cedar-5"]),
        ("one-empty", ["empty-1", "cedar-5"]),
        ("only-empty", ["empty-1"], "*"),
        ("nothing", [], "*"),
        ("all", ["*"]),
    )
}
CHOSEN = {"acme": "acme-7", "acme-staff": "acme-7", "birch": "birch-3", "one-empty": "cedar-5"}
"""Namespaces that the callers with answers get."""

QUESTIONS = (
    "What does the vault report say?",
    "Who keeps the vault code?",
    *(f"Where is the {word}?" for word in (*TENANTS.values(), HIDDEN)),
)
MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


class Probe(NamedTuple):
    """A request; `body` lacks the namespace."""

    path: str
    body: dict[str, Any] | None
    takes_null: bool = True


def texts(namespace: str, word: str) -> list[dict[str, Any]]:
    rows = [
        {
            "id": f"{namespace}-{number}",
            "doc_id": f"{namespace}-doc-{number}",
            "title": f"Vault report of {namespace}",
            "text": f"The vault report {number} of {namespace} says that the keeper {word.title()} "
            f"{number} keeps the vault code in the {word} room.",
        }
        for number in range(3)
    ]
    if namespace == "acme-7":
        secret = {**rows[0], "id": "s", "doc_id": "acme-7-staff", "acl": ["staff"]}
        rows.append({**secret, "text": f"The vault report for staff says {HIDDEN} vault code."})
    return rows


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Path:
    home = tmp_path_factory.mktemp("tenants")
    for namespace, word in TENANTS.items():
        folder = write_corpus(home / namespace, {"chunks.jsonl": texts(namespace, word)})
        load_folder(folder, home / "store.sqlite", cache_dir, embed=False, namespace=namespace)
    return home / "store.sqlite"


@pytest.fixture(scope="module")
def client(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    home = tmp_path_factory.mktemp("keys")
    settings = {"cache_dir": home, "graph_budget_per_minute": 10_000, **keyed(home, KEYS)}
    with opened(settings_at(store, **PLAIN, **settings)) as session:
        yield session


def send(client: Any, key: str, probe: Probe, null: bool = False) -> Any:
    is_mcp, body = probe.path == "/mcp", deepcopy(probe.body)
    headers = {"X-Api-Key": key, **(MCP if is_mcp else {})}
    if body is None:
        return client.get(probe.path, headers=headers)
    if null:
        (body["params"]["arguments"] if is_mcp else body)["namespace"] = None
    return client.post(probe.path, json=body, headers=headers)


def answered(client: Any, key: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return body_of(send(client, key, Probe(path, body)))


def tool(name: str, **arguments: Any) -> Probe:
    return Probe("/mcp", tool_call(name, **arguments), takes_null=name != "list_namespaces")


def probes(question: str) -> list[Probe]:
    answered = answer_request(question, 100)
    message = {"role": "user", "content": question}
    seeds = [f"ent:{0:016x}", "doc:acme-7-doc-0", "doc:birch-3-doc-1"]
    return [
        Probe("/v1/search", {"query": question}),
        Probe("/v1/search", {"query": question, "cache_key": "shared"}),
        Probe("/v1/answer", {**answered, "verbosity": "graph"}),
        Probe("/v1/answer/stream", answered),
        Probe("/v1/explain", {"query": question, "expect": {"doc_id": "birch-3-doc-0"}}),
        Probe("/v1/check", {"text": f"The answer to {question} is in the vault room."}),
        Probe("/v1/traverse", {"seed_ids": seeds, "query": question}),
        Probe("/v1/chat/completions", {"model": "extractive", "messages": [message]}, False),
        Probe("/v1/documents", None),
        Probe("/v1/namespaces", None),
        tool("search_documentation", query=question),
        tool("answer_with_citations", query=question),
        tool("check_grounding", text=f"Not so: {question}"),
        tool("list_documents"),
        tool("list_namespaces"),
        tool("read_passage", uuid="00000000-0000-5000-8000-000000000000"),
    ]


def foreign(key: str) -> list[str]:
    """Return the texts that replies to a caller never contain."""
    granted = KEYS[key]["namespaces"]
    words = [
        secret
        for namespace, word in TENANTS.items()
        if not {namespace, "*"} & set(granted)
        for secret in (namespace, word)
    ]
    return words if key == "acme-staff" else [*words, HIDDEN, "acme-7-staff"]


def test_a_vector_store_is_a_namespace(client: Any) -> None:
    for namespace, word in TENANTS.items():
        stores = [{"type": "file_search", "vector_store_ids": [namespace]}]
        body = {"model": "extractive", "input": QUESTIONS[0], "tools": stores}
        response = answered(client, "all", "/v1/responses", body)
        assert response["docstokg"]["namespace"] == namespace
        assert word.title() in json.dumps(response["output"])


def test_a_thousand_requests_without_a_namespace_leak_nothing(client: Any) -> None:
    sent = 0
    for key in KEYS:
        for question in QUESTIONS:
            for probe in probes(question):
                for null in (False, True)[: 1 + (probe.takes_null and probe.body is not None)]:
                    reply = send(client, key, probe, null)
                    assert reply.status_code in (200, 400, 403, 404), (key, probe, reply.text)
                    sent_text, text = json.dumps(probe.body).casefold(), reply.text.casefold()
                    leaked = [w for w in foreign(key) if w in text and w not in sent_text]
                    assert not leaked, (key, probe, leaked, reply.text)
                    sent += 1
    assert sent >= 1000


@pytest.mark.parametrize(("key", "namespace"), CHOSEN.items())
def test_every_surface_takes_the_only_namespace_with_documents(
    client: Any, key: str, namespace: str
) -> None:
    word, question = TENANTS[namespace], "Who keeps the vault code?"
    answering = ("/v1/search", "/v1/answer", "/v1/answer/stream", "/v1/chat/completions")
    tools = ("search_documentation", "answer_with_citations")
    for probe in probes(question):
        name = (probe.body or {}).get("params", {}).get("name", "")
        if probe.path in answering or name in tools:
            reply = send(client, key, probe)
            assert (reply.status_code, word in reply.text) == (200, True), (probe, reply.text)
    result = answered(client, key, "/v1/search", {"query": question})
    assert result["metadata"]["namespace"] == namespace
    uuid = result["citations"][0]["uuid"]
    passage = body_of(send(client, key, tool("read_passage", uuid=uuid)))
    assert not passage["result"].get("isError"), passage
    document = f"{namespace}-doc-1"
    assert document in send(client, key, tool("list_documents")).text
    assert document in send(client, key, Probe("/v1/documents", None)).text
    walk = {"seed_ids": [f"doc:{document}"], "query": question}
    assert answered(client, key, "/v1/traverse", walk)["nodes"]
    explained = {"query": question, "expect": {"doc_id": document}}
    assert answered(client, key, "/v1/explain", explained)["doc_id"] == document
    uuids = {chunk_uuid(namespace, row["id"]) for row in texts(namespace, word)}
    cited = {"text": "The keeper keeps it [1].", "citations": [{"rank": 1, "uuid": uuid}]}
    for draft in ({"text": "The keeper keeps the vault code."}, cited):
        sources = answered(client, key, "/v1/check", draft)["diagnostics"]["sources"]
        assert sources and {source["uuid"] for source in sources} <= uuids


def test_several_namespaces_are_listed_to_their_readers(client: Any) -> None:
    listed = {"two": "acme-7, cedar-5", "all": "acme-7, birch-3, cedar-5"}
    for key, names in listed.items():
        for probe in probes("Who keeps the vault code?"):
            if probe.path == "/v1/namespaces" or "list_namespaces" in str(probe.body):
                continue
            reply = send(client, key, probe)
            assert reply.status_code == (200 if probe.path == "/mcp" else 400), reply.text
            assert "namespace_required" in reply.text, (probe, reply.text)
            assert f"that you may read: {names}." in reply.text, (probe, reply.text)
        named = {"query": "Who keeps the vault code?", "namespace": "cedar-5"}
        assert answered(client, key, "/v1/search", named)["citations"]


def test_check_and_traverse_read_several_namespaces(client: Any) -> None:
    names = ["acme-7", "cedar-5"]
    draft = {"text": "The keeper Quokka 1 keeps it. The keeper Narwhal 1 keeps it."}
    walk = {"seed_ids": [f"doc:{name}-doc-1" for name in names]}
    for path, fields in (("/v1/check", draft), ("/v1/traverse", walk)):
        body = {**fields, "namespaces": names}
        reply = answered(client, "two", path, body)
        ids = {row["id"] for row in reply.get("nodes", ())}
        ids |= {row["uuid"] for row in reply.get("diagnostics", {}).get("sources", ())}
        for name in names:
            stored = {chunk_uuid(name, row["id"]) for row in texts(name, TENANTS[name])}
            assert ids & stored, (path, name, reply)
        refused = send(client, "acme", Probe(path, body))
        assert (refused.status_code, "cedar-5" in refused.text) == (403, True)


def test_empty_and_forbidden_namespaces_have_different_replies(client: Any) -> None:
    probe = Probe("/v1/search", {"query": "Who keeps the vault code?"})
    body = body_of(send(client, "only-empty", probe))
    assert body["metadata"]["namespace"] == "empty-1"
    assert "Namespace 'empty-1' is empty." in body["warnings"]
    assert send(client, "nothing", probe).status_code == 403


def test_sources_of_the_request_need_no_namespace(client: Any) -> None:
    source = {"text": "The sky is blue."}
    for key in KEYS:
        body = answered(client, key, "/v1/check", {**source, "sources": [source]})
        assert body["grounding"]["grounded"] is True


def test_invented_namespaces_take_no_place_in_the_metrics(client: Any) -> None:
    for namespace in (*(f"invented-{number}" for number in range(25)), "birch-3"):
        body = {"query": "vault report", "namespace": namespace}
        answered(client, "all", "/v1/search", body)
    series = client.get("/metrics", headers={"X-Api-Key": "all"}).text
    assert 'namespace="birch-3"' in series and "invented" not in series
