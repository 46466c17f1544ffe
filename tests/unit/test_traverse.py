"""A walk keeps its caps, sees only its caller's chunks, and counts unfollowed nodes."""

import json
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstokg.contracts.envelope import Caller
from docstokg.contracts.graph import GraphSlice, SliceEntity, SliceRequest
from docstokg.contracts.records import Scope
from docstokg.contracts.traverse import Frontier
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Timeout, Unavailable
from docstokg.usecases.run import Call
from docstokg_functions.traverse.call_budget import CallBudget
from docstokg_functions.traverse.traverse import traverse
from docstokg_functions.traverse.walk import WalkRequest, WalkResult, walk_graph
from tests import plans
from tests.contract.embedded import EmbeddedGraph, EmbeddedIndex
from tests.contract.test_knowledge_graph import (
    chunk,
    entity,
    mention,
    number,
    put_mentions,
    relation,
)
from tests.contract.test_search_index import chunk as index_chunk
from tests.envelopes import envelope
from tests.word_vectors import DIMENSION, WordVectors

ME = Caller(sub="me", namespaces=("*",), groups=("*",))
QUERY = "seizures of children"
ASKED = {"seed_ids": ["HP:1"], "query": QUERY}
EVERYTHING = Scope(namespace="default")
TEXTS = {
    "a": ("d1", "Seizures of children", "neurology", ()),
    "b": ("d1", "Seizures and fever", "neurology", ()),
    "c": ("d2", "Concrete bridges", "roads", ()),
    "s": ("d3", "Secret seizures of children", "neurology", ("staff",)),
}
Stores = tuple[EmbeddedGraph, EmbeddedIndex]


@cache
def stores() -> Stores:
    graph, index = EmbeddedGraph(), EmbeddedIndex()
    graph.put_chunks([chunk(name, row[0], topic=row[2], acl=row[3]) for name, row in TEXTS.items()])
    graph.put_entities(
        [
            entity("HP:1", "Seizures", "Phenotype"),
            entity("HP:2", "Fever", "Phenotype"),
            entity("HP:3", "Concrete", "Material"),
            *(entity(f"X:{i}", f"Seizures kind {i}", "Phenotype") for i in range(30)),
        ]
    )
    graph.put_relations(
        [
            relation("HP:2", "may_cause", "HP:1", evidence="b", weight=2.0),
            relation("HP:1", "unlike", "HP:3"),
            *(relation(f"X:{i}", "is_a", "HP:1") for i in range(30)),
        ]
    )
    named = {"a": ["HP:1"], "b": ["HP:1", "HP:2"], "c": ["HP:3"], "s": ["HP:1", "HP:3"]}
    put_mentions(graph, *(mention(name, end) for name, ends in named.items() for end in ends))
    index.open_load("run", "words", DIMENSION, None)
    for name, (doc_id, title, topic, acl) in TEXTS.items():
        (vector,) = WordVectors().embed([title], None)
        placed = {"namespace": "default", "doc_id": doc_id, "topics": (topic,), "acl": acl}
        record = index_chunk(name, title, uuid=number(name), title=title, vector=vector, **placed)
        index.put([(record, "print")])
    index.close_load()
    return graph, index


@pytest.fixture(scope="module")
def both() -> Stores:
    return stores()


def walked(
    both: Stores,
    *seeds: str,
    embedder: WordVectors | None = None,
    scope: Scope = EVERYTHING,
    call: Call | None = None,
    **fields: Any,
) -> WalkResult:
    request: dict[str, Any] = {
        "query": QUERY,
        "seeds": seeds,
        "direction": "both",
        "max_depth": 2,
        "soft_depth": 2,
        "max_nodes": 60,
        "frontier": Frontier(top_k=60, delta_threshold=2.0),
        **fields,
    }
    return walk_graph(
        call or plans.call(scope=scope),
        WalkRequest(**request),
        Deadline.after(30.0),
        graph=both[0],
        index=both[1],
        embedder=embedder or WordVectors(),
    )


def edges(result: WalkResult) -> set[tuple[str, str, str]]:
    return {(edge.src, edge.type, edge.dst) for edge in result.view()[1]}


def test_all_labels_and_edges_are_walked_with_paths(
    both: Stores,
) -> None:
    result = walked(both, "hp:1")
    nodes, walked_edges = result.view()
    assert {node.label for node in nodes} == {"Entity", "Chunk", "Document", "Topic"}
    assert ("HP:2", "may_cause", "HP:1") in edges(result)
    assert (number("a"), "MENTIONS", "HP:1") in edges(result)
    assert ("doc:d1", "HAS_CHUNK", number("a")) in edges(result)
    assert (number("a"), "HAS_TOPIC", "topic:neurology") in edges(result)
    assert all(edge.path[0] == "HP:1" and edge.path[-1] == edge.dst for edge in walked_edges)
    assert result.depth_reached == 2
    assert walked(both, "hp:1").view() == result.view()


def test_direction_and_allow_lists(both: Stores) -> None:
    out = walked(both, "HP:1", direction="out", max_depth=1)
    assert set(out.nodes) == {"HP:1", "HP:3"}
    inward = walked(both, "HP:1", direction="in", max_depth=1)
    assert {"HP:2", number("a")} <= set(inward.nodes)
    assert "HP:3" not in inward.nodes
    mentions = walked(both, "HP:1", relations=("mentions",), max_depth=1)
    assert {kind for _, kind, _ in edges(mentions)} == {"MENTIONS"}
    by_type = walked(both, "HP:1", relations=("may_cause",), max_depth=1)
    assert set(by_type.nodes) == {"HP:1", "HP:2"}
    related = walked(both, "HP:1", relations=("related_to",), max_depth=1)
    assert {"HP:2", "HP:3"} <= set(related.nodes)
    labels = walked(both, "HP:1", labels=("Entity",))
    assert {node.label for node in labels.view()[0]} == {"Entity"}
    kinds = walked(both, "HP:1", entities=("material",), max_depth=1)
    assert "HP:3" in kinds.nodes
    assert "HP:2" not in kinds.nodes


def test_hubs_are_sampled_and_caps_hold(both: Stores) -> None:
    result = walked(both, "HP:1", max_depth=1)
    assert sum(name.startswith("X:") for name in result.nodes) < 21
    assert result.skipped > 0
    few = walked(both, "HP:1", max_nodes=5)
    assert len(few.nodes) <= 5


def test_the_gate_expands_less_than_all(both: Stores) -> None:
    gated = walked(both, "HP:1", frontier=Frontier(top_k=3), max_depth=3)
    plain = walked(both, "HP:1", frontier=Frontier(top_k=20, delta_threshold=0.0), max_depth=3)
    assert gated.expanded < plain.expanded
    assert gated.pruned > 0


LIMITS = st.fixed_dictionaries(
    {
        "max_nodes": st.integers(1, 60),
        "direction": st.sampled_from(("out", "in", "both")),
        "frontier": st.builds(
            Frontier,
            top_k=st.integers(1, 20),
            delta_threshold=st.floats(0, 1),
            novelty_penalty=st.floats(0, 1),
        ),
        "query": st.sampled_from((QUERY, "concrete and fever", None)),
    }
)


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["HP:1", "X:3", "doc:d1", "topic:roads"]), min_size=1), LIMITS)
def test_a_larger_depth_never_gives_fewer_nodes(
    both: Stores, seeds: list[str], limits: dict[str, Any]
) -> None:
    """For any last depth alone, and for a soft depth of 2 as in limits.graph."""
    for soft in (2, 5):
        sizes = [
            len(walked(both, *seeds, max_depth=depth, soft_depth=min(depth, soft), **limits).nodes)
            for depth in range(1, 6)
        ]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize("soft", [1, 2])
def test_beyond_the_soft_depth_scores_may_not_fall(both: Stores, soft: int) -> None:
    result = walked(both, "HP:1", "doc:d2", max_depth=5, soft_depth=soft, max_nodes=200)
    further = walked(both, "HP:1", "doc:d2", max_depth=5, soft_depth=5, max_nodes=200)
    best: dict[int, float] = {}
    for node in result.nodes.values():
        depth = len(node.path) - 1
        best[depth] = max(best.get(depth, -1.0), node.score)
    for node in result.nodes.values():
        for depth, parent in list(enumerate(node.path))[soft:-1]:
            assert result.nodes[parent].score >= best[depth - 1]
    assert set(result.nodes) <= set(further.nodes)
    assert (len(result.nodes) < len(further.nodes)) is (soft == 1)


def test_vectors_stored_by_a_load_are_not_recomputed() -> None:
    """They also win: `HP:3` was given the question's own vector, whatever its name says."""

    class Counting(WordVectors):
        def __init__(self) -> None:
            self.texts: list[str] = []

        def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
            self.texts += texts
            return super().embed(texts, deadline)

    graph, index = stores.__wrapped__()  # not those that all tests read
    (vector,) = WordVectors().embed([QUERY], None)
    graph.put_entities([entity("HP:3", "Concrete", "Material", vector=vector)])
    embedder = Counting()
    result = walked((graph, index), "HP:1", embedder=embedder, max_depth=1, soft_depth=1)
    assert "Concrete" not in embedder.texts
    assert {QUERY, "Fever"} <= set(embedder.texts)
    assert result.nodes["HP:3"].score > result.nodes["HP:2"].score


def test_vectors_of_another_model_are_not_compared() -> None:
    class Foreign(WordVectors):
        model = "other-words"

    log: list[str] = []
    call = plans.call(log)
    result = walked(stores(), "HP:1", embedder=Foreign(), call=call, max_depth=1, soft_depth=1)
    assert call.degraded == ["embedding_unavailable"]
    (line,) = [json.loads(text) for text in log]
    assert (line["event"], line["request_id"]) == ("embed_failed", "r")
    assert "words" in line["error"]
    assert result.embedding is None
    assert result.nodes["X:1"].score > result.nodes["HP:3"].score, "scored by words"


def test_documents_topics_and_chunks_are_seeds(both: Stores) -> None:
    result = walked(both, "doc:d1", "topic:roads", number("c"), "doc:none", "nothing", max_depth=1)
    assert {"doc:d1", "topic:roads", number("c"), number("a"), number("b")} <= set(result.nodes)
    assert result.unknown == ("doc:none", "nothing")


def test_closed_chunks_stay_closed(both: Stores) -> None:
    everybody = walked(both, "HP:1")
    assert number("s") in everybody.nodes
    stranger = Scope(namespace="default", groups=())
    closed = walked(both, "HP:1", "doc:d3", number("s"), scope=stranger)
    assert not {number("s"), "doc:d3"} & set(closed.nodes)
    assert set(closed.unknown) == {"doc:d3", number("s")}
    routed = walked(both, "HP:1", scope=Scope(namespace="default", filter={"topic": ("roads",)}))
    assert {node.id for node in routed.view()[0] if node.label == "Chunk"} <= {number("c")}


class Broken(EmbeddedGraph):
    """Fails after the seeds were read."""

    def __init__(self, error: DocsToKGError, *, at_once: bool) -> None:
        super().__init__()
        self.__dict__.update(stores()[0].__dict__)
        self._error, self._at_once = error, at_once

    def entities(
        self, ids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> tuple[SliceEntity, ...]:
        if self._at_once:
            raise self._error
        return super().entities(ids, scope, deadline)

    def slice(self, request: SliceRequest, scope: Scope, deadline: Deadline) -> GraphSlice:
        raise self._error


def post(
    body: dict[str, Any],
    *,
    graph: EmbeddedGraph | None = None,
    caller: Caller = ME,
    budget: CallBudget | None = None,
    log: list[str] | None = None,
) -> tuple[int, dict[str, Any], dict[str, str]]:
    pair = stores()
    reply = traverse(
        envelope(body, "traverse", caller, "r-9"),
        begin=lambda request_id, scope: plans.call(log, request_id=request_id, scope=scope),
        index=pair[1],
        walk=partial(walk_graph, graph=graph or pair[0], index=pair[1], embedder=WordVectors()),
        budget=budget or CallBudget(100),
        enabled=True,
    )
    return reply.statusCode, json.loads(reply.body), reply.headers


def test_the_server_caps_win_and_are_explained() -> None:
    def capped(max_depth: int, max_nodes: int) -> tuple[int, int]:
        _, body, _ = post({**ASKED, "max_depth": max_depth, "max_nodes": max_nodes})
        caps = body["explain"]["caps"]
        assert len(body["nodes"]) <= caps["max_nodes"]
        assert (body["cursor"] is None) == (len(body["nodes"]) < caps["max_nodes"])
        assert body["explain"]["scoring"]["embedding"] == "words"
        return caps["max_depth"], caps["max_nodes"]

    assert (capped(99, 5000), capped(2, 7)) == ((5, 200), (2, 7))


def test_an_unknown_relation_warns_and_lists_the_others() -> None:
    _, answer, _ = post({**ASKED, "rel_whitelist": ["is_a", "Eats", "MENTIONS"]})
    (warning,) = answer["warnings"]
    assert warning.startswith("rel_whitelist: not found near these seeds: eats; available: ")
    assert "may_cause" in warning
    known = {**ASKED, "rel_whitelist": ["is_a", "RELATED_TO", "has_topic"]}
    assert post(known)[1]["warnings"] == []


def test_pages_follow_each_other_and_refuse_foreign_cursors() -> None:
    request = {**ASKED, "max_nodes": 4}
    seen: list[str] = []
    cursor = None
    while True:
        status, body, _ = post({**request, "cursor": cursor} if cursor else request)
        assert status == 200
        assert len(body["nodes"]) <= 4
        seen += [node["id"] for node in body["nodes"]]
        cursor = body["cursor"]
        if cursor is None:
            break
    whole = post({**request, "max_nodes": 200})[1]["nodes"]
    assert seen == [node["id"] for node in whole]
    _, first, _ = post(request)
    for foreign in (first["cursor"], "AAAA", "not base64!", "bnVsbA"):
        status, body, _ = post({**request, "query": "something else", "cursor": foreign})
        assert status == 400
        assert body["errors"][0]["path"] == "$.cursor"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"seed_ids": []}, "$.seed_ids"),
        ({"query": "x"}, "$.query"),
        ({"extra": 1}, "$.extra"),
        ({"label_whitelist": ["Secret"]}, "$.label_whitelist[0]"),
        ({"frontier": {"top_k": 0}}, "$.frontier.top_k"),
    ],
)
def test_bad_requests_say_where(fields: dict[str, Any], path: str) -> None:
    status, problem, _ = post({**ASKED, **fields})
    assert (status, [error["path"] for error in problem["errors"]]) == (400, [path])


def test_refusals() -> None:
    outsider = Caller(sub="x", namespaces=("other",), groups=())
    assert post({**ASKED, "namespace": "default"}, caller=outsider)[0] == 403
    budget = CallBudget(2)
    assert [post(ASKED, budget=budget)[0] for _ in range(3)] == [200, 200, 429]
    lines: list[str] = []
    status, problem, headers = post(ASKED, budget=budget, log=lines)
    assert (status, problem["code"]) == (429, "graph_budget_exceeded")
    assert 55 <= int(headers["Retry-After"]) <= 60
    (event,) = [json.loads(line) for line in lines if "graph_budget_refused" in line]
    assert (event["request_id"], ME.sub in event.values()) == ("r-9", False)
    other = ME.model_copy(update={"sub": "other"})
    assert post(ASKED, budget=budget, caller=other)[0] == 200


class Counter:
    """A shared count, as every process of a deployment sees it."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self.down = False

    def add(self, key: str, ttl_s: int, deadline: Deadline) -> int:
        if self.down:
            raise Unavailable("no table")
        self.taken[key] = self.taken.get(key, 0) + 1
        return self.taken[key]


def test_budgets_hold_across_processes_while_the_table_answers() -> None:
    lines: list[str] = []
    counter = Counter()
    telemetry = plans.logging(lines)
    first, second = (CallBudget(2, counter, telemetry) for _ in range(2))
    assert [first.spend("o'neil", 60.0, "r"), second.spend("o'neil", 61.0, "r")] == [0.0, 0.0]
    assert first.spend("o'neil", 75.0, "r") == pytest.approx(45.0)
    assert second.spend("o'neil", 76.0, "r") == pytest.approx(44.0)
    assert second.spend("somebody else", 76.0, "r") == 0.0
    assert first.spend("o'neil", 125.0, "r") == 0.0
    assert not any("neil" in key for key in counter.taken)
    counter.down = True
    assert CallBudget(2, counter, telemetry).spend("o'neil", 130.0, "r") == 0.0
    (line,) = [json.loads(text) for text in lines if "call_counter_lost" in text]
    assert (line["request_id"], line["kind"], line["error"]) == ("r", "Unavailable", "no table")


def test_failing_graphs_give_503_or_a_partial_walk() -> None:
    status, problem, _ = post(ASKED, graph=Broken(Timeout("slow"), at_once=True))
    assert (status, problem["code"]) == (503, "kg_timeout")
    status, answer, _ = post(ASKED, graph=Broken(Unavailable("gone"), at_once=False))
    assert status == 200
    assert [node["id"] for node in answer["nodes"]] == ["HP:1"]
    assert answer["explain"]["degraded_reasons"] == ["kg_unavailable"]
