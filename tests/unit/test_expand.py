"""Expansion adds with evidence, orders by one walk, and fails into `selected`."""

from itertools import pairwise
from typing import Any

import pytest

from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import Filters, Scope
from docstokg.contracts.state import (
    Candidate,
    Expansion,
    ExpansionPlan,
    FactRef,
    Plan,
    Restriction,
    Retrieval,
)
from docstokg.domain.deadline import Deadline
from docstokg.errors import (
    CircuitOpen,
    DocsToKGError,
    Misconfigured,
    PlanRejected,
    Timeout,
    Unavailable,
    WrongAnswer,
)
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.domains import ONTOLOGY, OntologyDomain, SubjectDomain
from docstokg.usecases.run import Run
from docstokg_functions.expand.expand import expand
from docstokg_functions.expand.restrict import restrict
from tests import plans
from tests.contract.embedded import EmbeddedGraph
from tests.contract.test_knowledge_graph import (
    BRIDGE,
    SECRET,
    chunk,
    entity,
    fill,
    mention,
    number,
    put_mentions,
    relation,
)

NOW_S = 1_700_000_000.0
FACT = FactRef(
    source="MONDO:1", type="has_symptom", target="HP:0001250", score=1.0, evidence_uuid=number("b")
)


@pytest.fixture(scope="module")
def clinic() -> EmbeddedGraph:
    graph = EmbeddedGraph()
    fill(graph)
    return graph


class Breaking(EmbeddedGraph):
    """A graph whose slices fail from the given one on, and whose walks fail; all else works."""

    def __init__(self, error: DocsToKGError, *, works: int = 0) -> None:
        super().__init__()
        fill(self)
        self._error, self._works = error, works

    def slice(self, request: SliceRequest, scope: Scope, deadline: Deadline) -> GraphSlice:
        if self._works == 0:
            raise self._error
        self._works -= 1
        return super().slice(request, scope, deadline)

    def widen(self, *_: Any) -> GraphSlice:
        raise self._error


def plan(query: str, groups: tuple[str, ...] | None = None, **expansion: Any) -> Plan:
    now = int(NOW_S * 1000)
    walk = ExpansionPlan.model_validate({"enabled": True, "time_s": 1.0, **expansion})
    return plans.plan(query, groups=groups, started_ms=now, deadline_ms=now + 5000, expansion=walk)


def step(plan: Plan, log: list[str] | None = None) -> Run:
    return Run(
        plan=plan,
        scope=Scope(namespace=plan.namespace, groups=plan.groups),
        telemetry=plans.logging(log),
        clock=lambda: NOW_S,
    )


def retrieved(
    *names: str,
    facts: tuple[FactRef, ...] = (),
    selected: int = 2,
    best: float = 1.0,
    step: float = 0.1,
) -> Retrieval:
    """Return a pool whose scores fall from `best` by `step`."""
    uuids = tuple(map(number, names))
    pool = tuple(Candidate(uuid=uuid, score=best - i * step) for i, uuid in enumerate(uuids))
    return Retrieval(selected=uuids[:selected], pool=pool, facts=facts)


def run(
    graph: KnowledgeGraph,
    query: str,
    retrieval: Retrieval,
    *,
    groups: tuple[str, ...] | None = None,
    log: list[str] | None = None,
    **expansion: Any,
) -> Expansion:
    begun = step(plan(query, groups, **expansion), log)
    return expand(begun, retrieval, graph=graph)


def names(expansion: Expansion) -> list[str]:
    letters = {number(name): name for name in "abcdxyz"}
    return [letters[item.uuid] for item in expansion.ranking]


def test_every_added_passage_has_a_connected_evidence_path(
    clinic: EmbeddedGraph,
) -> None:
    expansion = run(clinic, "Crohn's disease and seizures", retrieved("d"), max_hops=2)
    assert expansion.kg_stats.hops_executed == 2
    assert expansion.kg_stats.triples_traversed > 0
    for item in expansion.ranking:
        if item.source == "hybrid":
            continue
        assert item.evidence is not None
        walked = [expansion.entities[i].id for i in item.evidence.nodes]
        edges = [expansion.edges[i] for i in item.evidence.path]
        assert walked[0] in {seed.id for seed in expansion.seeds}
        assert walked[-1] == expansion.entities[item.evidence.entity].id
        assert [{edge.src, edge.dst} for edge in edges] == [
            {first, second} for first, second in pairwise(walked)
        ]


def test_the_walk_orders_chunks_only_with_a_start(clinic: EmbeddedGraph) -> None:
    pool = retrieved("x", "y", "a", "d", selected=4)
    assert names(run(clinic, "seizures", pool))[0] == "a"
    blank = EmbeddedGraph()
    fill(blank)
    blank.put_mentions("default", {number("a"): [], number("d"): [], number("b"): []})
    assert names(run(blank, "nothing known", pool)) == ["x", "y", "a", "d"]


def test_a_name_heading_nothing_keeps_the_retrieval_order() -> None:
    """The words of a name found in texts were weighed by the search; a walk would do it twice."""
    graph = crowded()
    pool = retrieved("x", "d", selected=2)
    assert names(run(graph, "bridge", pool))[:2] == ["x", "d"]


@pytest.mark.parametrize(("about", "first"), [("ab", "a"), ("b", "b")])
def test_chunks_about_named_entities_keep_search_order(about: str, first: str) -> None:
    """Further mentions of the second of two documents on one disease do not raise it."""
    graph = EmbeddedGraph()
    graph.put_chunks([chunk(name, f"d{name}") for name in "abcd"])
    graph.put_entities([entity("X:1", "zorbium"), entity("X:2", "quinine"), entity("X:3", "frogs")])
    mentions = [mention(name, "X:1", about=True) for name in about]
    mentions += [mention(name, "X:1", 0, 3) for name in "ab" if name not in about]
    mentions += [mention(name, "X:2", 0, 3) for name in "bcd"]
    put_mentions(graph, *mentions, mention("a", "X:3", 0, 3))
    order = names(run(graph, "What is zorbium?", retrieved(*"abcd", selected=4, step=0.02)))
    assert order[0] == first
    assert ("a" in about) == (order.index("a") < order.index("b"))


@pytest.mark.parametrize(
    ("links", "elsewhere", "moves"),
    [(0, 0, False), (3, 0, False), (4, 0, True), (4, 45, True), (4, 46, False)],
)
def test_chance_links_leave_the_order(links: int, elsewhere: int, moves: bool) -> None:
    """Four of twenty opened chunks must mention a subject that at most fifty chunks mention."""
    chunk_names = [f"c{i}" for i in range(20 + elsewhere)]
    graph = EmbeddedGraph()
    graph.put_chunks([chunk(name, f"d{name}") for name in chunk_names])
    graph.put_entities([entity("X:1", "a title", listed=False)])
    linked = (*chunk_names[:links], *chunk_names[20:])
    mentions = [mention(name, "X:1", 0, 4) for name in linked]
    put_mentions(graph, mention("c19", "X:1", about=True), *mentions)
    pool = retrieved(*chunk_names[:20], selected=20, step=0.01)
    expansion = run(graph, "nothing known", pool)
    order = tuple(item.uuid for item in expansion.ranking if item.uuid in pool.selected)
    assert (order != pool.selected) == moves
    assert expansion.graph_gain.order_kept == (None if moves else "no_rare_name")


@pytest.mark.parametrize("filtered", [False, True])
def test_walk_sets_passages_of_one_document_apart(filtered: bool) -> None:
    """The third passage of a document falls behind the first of another one."""
    graph = EmbeddedGraph()
    graph.put_chunks([chunk(name, {"x": "e", "y": "f"}.get(name, "d")) for name in "abcdxy"])
    graph.put_entities([entity("X:1", "zorbium")])
    put_mentions(graph, *(mention(name, "X:1", 0, 3) for name in "abcdxy"))
    begun = step(plan("What is zorbium?"))
    if filtered:
        begun.scope = begun.scope.model_copy(update={"filter": {"doc_id": ("d", "e", "f")}})
    order = names(expand(begun, retrieved(*"abcdxy", selected=6), graph=graph))
    assert order == list("abcdxy" if filtered else "abxycd")


@pytest.mark.parametrize(("about", "related", "hops"), [("", "", 1), ("a", "a", 1), ("a", "b", 2)])
def test_second_hops_need_two_names_that_lead_on(about: str, related: str, hops: int) -> None:
    """A name leads on by a passage about it or by a relation; words that recur in texts do not."""
    graph = EmbeddedGraph()
    ids = {name: f"{BRIDGE}-{name}" for name in "ab"}
    graph.put_chunks([chunk(name, name) for name in "xyab"])
    mentions = [mention(name, entity_id) for name in "xy" for entity_id in ids.values()]
    put_mentions(graph, *mentions, *(mention(name, ids[name], about=True) for name in about))
    graph.put_entities(
        [entity(entity_id, f"thing {name}", listed=False) for name, entity_id in ids.items()]
        + [entity("X:1", "other matter")]
    )
    graph.put_relations([relation(ids[n], "leads_to", "X:1") for n in related])
    expansion = run(graph, "What of thing a and thing b?", retrieved("x"))
    assert expansion.kg_stats.hops_executed == hops


def crowded() -> EmbeddedGraph:
    """Make a clinic where the best chunk of the pool is about something else than is asked."""
    graph = EmbeddedGraph()
    fill(graph)
    graph.put_chunks([chunk("x", "d5")])
    put_mentions(graph, mention("x", "X:1", about=True))
    graph.put_entities([entity("X:1", "other matter", listed=False)])
    return graph


def test_the_limit_bounds_additions_down_to_zero(clinic: EmbeddedGraph) -> None:
    assert len(run(clinic, "seizures bridge", retrieved("d"), limit=1).ranking) == 2
    none = run(clinic, "seizures", retrieved("a"), limit=0)
    assert names(none) == ["a"]
    assert none.ranking[0].evidence is not None


MANY = [f"c{i}" for i in range(220)]


def test_at_most_five_follow_the_last_selected_passage() -> None:
    retrieval = retrieved(*MANY, selected=10, best=3.0, step=1 / 300)
    sources = [item.source for item in run(big_graph(), "entity 0", retrieval, limit=100).ranking]
    last = max(place for place, source in enumerate(sources) if source == "hybrid")
    assert sources.count("hybrid") == 10
    assert len(sources) - 1 - last <= 5


def test_facts_and_given_seeds_are_starts(clinic: EmbeddedGraph) -> None:
    listed = FACT.model_copy(update={"evidence_uuid": None})
    assert run(clinic, "nothing known", retrieved("x", facts=(listed,))).seeds == ()
    by_fact = run(clinic, "nothing known", retrieved("x", facts=(FACT,)))
    assert {seed.id for seed in by_fact.seeds} == {"MONDO:1", "HP:0001250"}
    assert {"a", "b"} <= set(names(by_fact))
    by_seed = run(clinic, "nothing known", retrieved("x"), seeds=("mondo:1",))
    assert [seed.id for seed in by_seed.seeds] == ["MONDO:1"]


def test_a_seed_passage_without_relations_is_added() -> None:
    graph = EmbeddedGraph()
    fill(graph)
    graph.put_chunks([chunk("z", "d9")])
    graph.close_load()
    for seed in ("z", number("z"), "doc:d9"):
        expansion = run(graph, "nothing known", retrieved("x"), seeds=(seed,))
        by_name = dict(zip(names(expansion), expansion.ranking, strict=True))
        assert (by_name["z"].source, by_name["z"].evidence) == ("kg_expansion", None), seed
    bounded = run(graph, "nothing known", retrieved("x"), seeds=("z",), concept_types=("hp",))
    assert "z" not in names(bounded)


@pytest.mark.parametrize(("seed", "doc_id"), [("doc:d2", "d2"), (number("b"), "d2"), ("b", "d2")])
def test_a_document_or_a_chunk_routes(clinic: EmbeddedGraph, seed: str, doc_id: str) -> None:
    restriction = routed(clinic, seeds=(seed,))
    assert doc_id in (restriction.doc_ids or ())
    assert restriction.warnings == ()


def test_seed_shares_are_their_parts_of_the_restart(clinic: EmbeddedGraph) -> None:
    expansion = run(clinic, "seizures in Crohn's disease", retrieved("x"))
    shares = {seed.id: seed.share for seed in expansion.seeds}
    # One chunk mentions seizures, two Crohn's disease; together they are a third of the restart.
    assert shares == pytest.approx({"HP:0001250": 2 / 9, "MONDO:1": 1 / 9}, abs=1e-5)


def test_unnamed_entities_have_a_path_without_evidence(
    clinic: EmbeddedGraph,
) -> None:
    expansion = run(clinic, "nothing known", retrieved("d", "x"), max_hops=2)
    by_name = dict(zip(names(expansion), expansion.ranking, strict=True))
    assert by_name["d"].evidence is None
    added = by_name["a"].evidence
    assert added is not None
    assert (added.match_type, added.related_to) == (None, None)
    assert expansion.entities[added.nodes[0]].id == BRIDGE
    assert expansion.seeds == ()


def test_nothing_hidden_is_brought(clinic: EmbeddedGraph) -> None:
    kg: dict[str, Any] = {"seeds": ("MONDO:1", SECRET), "max_hops": 2}
    assert "c" in names(run(clinic, "Crohn's disease", retrieved("x"), **kg))
    stranger = run(clinic, "Crohn's disease", retrieved("x"), groups=(), **kg)
    assert "c" not in names(stranger)
    assert SECRET not in {entity.id for entity in stranger.entities}


def test_skipping_leaves_selected_and_says_why(clinic: EmbeddedGraph) -> None:
    answer = run(clinic, "nothing", retrieved("x", "y"))
    assert (names(answer), answer.degraded) == (["x", "y"], ())
    assert answer.graph_gain.skipped == "nothing_linked"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Timeout("slow"), "kg_timeout"), (Unavailable("down"), "kg_unavailable"),
        (CircuitOpen("open"), "kg_unavailable"), (WrongAnswer("odd"), "kg_unavailable"),
        (Misconfigured("odd"), "kg_unavailable"), (PlanRejected("scan"), "kg_plan_rejected"),
    ],
)  # fmt: skip
def test_failures_are_reasons_and_keep_the_first_hop(error: DocsToKGError, reason: str) -> None:
    expansion = run(Breaking(error), "seizures", retrieved("x", "y"))
    assert (names(expansion), expansion.degraded) == (["x", "y"], (reason,))
    assert expansion.graph_gain.skipped == "failed"
    two = "seizures in Crohn's disease"
    later = run(Breaking(error, works=1), two, retrieved("x", "y"))
    assert later.degraded == (reason,)
    assert later.kg_stats.hops_executed == 1
    assert {"a", "b"} <= set(names(later))


def test_without_time_the_graph_is_not_asked(clinic: EmbeddedGraph) -> None:
    late = plan("seizures").model_copy(update={"deadline_ms": int(NOW_S * 1000) + 100})
    expansion = expand(
        step(late),
        retrieved("x"),
        graph=Breaking(AssertionError("asked")),  # type: ignore[arg-type]
    )
    assert (names(expansion), expansion.degraded) == (["x"], ("kg_timeout",))


def test_the_message_stays_small_and_points_inside_itself() -> None:
    retrieval = retrieved(*MANY, selected=100, step=1 / 300)
    question = "entity 0 \U0001f600 and entity 7"
    expansion = run(big_graph(), question, retrieval, limit=100, max_hops=2)
    assert len(expansion.ranking) > 110
    encoded = expansion.model_dump_json(exclude_defaults=True).encode()
    assert len(encoded) < 100_000
    for item in expansion.ranking:
        if item.evidence is not None:
            for index in (item.evidence.entity, *item.evidence.nodes):
                assert 0 <= index < len(expansion.entities)
            assert all(0 <= index < len(expansion.edges) for index in item.evidence.path)


def big_graph() -> EmbeddedGraph:
    graph = EmbeddedGraph()
    graph.put_chunks([chunk(f"c{i}", f"d{i}") for i in range(240)])
    long = "\U0001f600" * 60
    graph.put_entities([entity(f"X:{i}", f"entity {i} {long}") for i in range(60)])
    graph.put_entities([entity("X:0", "entity 0"), entity("X:7", "entity 7")])
    mentions = [
        mention(f"c{i}", f"X:{j % 60}", 0, 4)
        for i in range(240)
        for j in (i, i + 1, i * 7, i // 3, i % 11)
    ]
    put_mentions(graph, *mentions)
    graph.put_relations(
        [relation(f"X:{i}", "leads_to", f"X:{i + 1}", evidence=f"c{i}") for i in range(59)]
    )
    return graph


def routed(
    graph: KnowledgeGraph, domain: SubjectDomain = ONTOLOGY, **expansion: Any
) -> Restriction:
    return restrict(step(plan("anything", restrict=True, **expansion)), graph=graph, domain=domain)


def test_routing_names_the_documents_around_the_seeds(clinic: EmbeddedGraph) -> None:
    assert routed(clinic, seeds=("MONDO:1",)).doc_ids == ("d2", "d3")
    assert routed(clinic, seeds=("MONDO:1",), max_hops=2).doc_ids == ("d1", "d2", "d3")


def test_a_term_stands_for_its_subtypes(clinic: EmbeddedGraph) -> None:
    parent = routed(clinic, seeds=("HP:0000118",))
    assert parent.doc_ids == ("d1",)

    class OnlySeizures(OntologyDomain):
        def metadata_filter(self, part: GraphSlice) -> Filters | None:
            return {"doc_id": ("d2",)} if part.chunks else None

    assert routed(clinic, OnlySeizures(), seeds=("MONDO:1",)).doc_ids == ("d2",)


class Plain(OntologyDomain):
    """A domain that adds nothing."""

    def expand_seeds(
        self, graph: KnowledgeGraph, seeds: tuple[str, ...], scope: Scope, deadline: Deadline
    ) -> tuple[str, ...]:
        return seeds


def test_routing_that_cannot_tell_restricts_nothing(clinic: EmbeddedGraph) -> None:
    unknown = routed(clinic, seeds=("no:1",))
    assert (unknown.doc_ids, unknown.degraded) == (None, ())
    assert unknown.warnings
    empty = routed(clinic, Plain(), seeds=("HP:0000118",))
    assert empty.doc_ids == ()
    assert empty.warnings
    broken = routed(Breaking(Timeout("slow")), seeds=("MONDO:1",))
    assert (broken.doc_ids, broken.degraded) == (None, ("kg_timeout",))
    rejected = routed(Breaking(PlanRejected("scan")), seeds=("MONDO:1",))
    assert rejected.degraded == ("kg_plan_rejected",)
