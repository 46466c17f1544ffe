"""What every knowledge graph promises, asked of the fake, the embedded one and the real server."""

import random
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docstokg.adapters.sqlite.graph import SqliteGraph
from docstokg.adapters.sqlite.graph_writer import SqliteGraphWriter
from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import ChunkNode, EntityRecord, MentionRecord, RelationRecord, Scope
from docstokg.domain.graph.linking import Linker
from docstokg.domain.identity import entity_id
from docstokg.domain.text.folding import question_keys
from docstokg.domain.vectors import pack
from docstokg.domain.visibility import facets
from docstokg.loading.transfer.contents import graph_rows
from docstokg.ports import GraphWriter, KnowledgeGraph
from docstokg.usecases.check_consistency import relations_from
from tests.contract.real import neo4j_store
from tests.plans import soon
from tests.services import SERVICES

SPACE = "default"
EVERYBODY = Scope(namespace=SPACE)
STRANGER = Scope(namespace=SPACE, groups=())
DOCTOR = Scope(namespace=SPACE, groups=("doctors", "x"))


class Store(NamedTuple):
    """Both sides of one store."""

    graph: KnowledgeGraph
    writer: GraphWriter


@contextmanager
def in_sqlite(tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "store.sqlite"
    with closing(SqliteGraph(path)) as graph, closing(SqliteGraphWriter(path)) as writer:
        yield Store(graph, writer)


@pytest.fixture(params=["sqlite", pytest.param("neo4j", marks=SERVICES)])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store that holds nothing yet."""
    with in_sqlite(tmp_path) if request.param == "sqlite" else neo4j_store() as sides:
        yield Store(*sides)


def number(chunk_id: str, namespace: str = SPACE) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"docstokg:{namespace}/{chunk_id}"))


def chunk(
    chunk_id: str, doc_id: str, *, namespace: str = SPACE, topic: str = "", **fields: Any
) -> ChunkNode:
    topics = (topic,) if topic else ()
    return ChunkNode(
        uuid=number(chunk_id, namespace),
        chunk_id=chunk_id,
        namespace=namespace,
        doc_id=doc_id,
        title=doc_id,
        topics=topics,
        facets=facets({"doc_id": doc_id}, topics, {}),
        **fields,
    )


def entity(identifier: str, name: str, kind: str | None = None, **fields: object) -> EntityRecord:
    return EntityRecord.model_validate(
        {"id": identifier, "namespace": SPACE, "name": name, "type": kind, **fields}
    )


def relation(
    source: str, kind: str, target: str, *, evidence: str | None = None, **fields: Any
) -> RelationRecord:
    ends = {"namespace": SPACE, "source": source, "type": kind, "target": target}
    if evidence is not None:
        fields |= {"evidence_uuid": number(evidence), "evidence_start": 3, "evidence_end": 9}
    return RelationRecord(**ends, **fields)


def mention(
    chunk_id: str, identifier: str, start: int | None = None, end: int | None = None, **fields: Any
) -> MentionRecord:
    uuid = number(chunk_id)
    return MentionRecord(uuid=uuid, entity=identifier, start=start, end=end, **fields)


def put_mentions(writer: Any, *mentions: MentionRecord) -> None:
    """Write mentions in place of those that their chunks have."""
    by_chunk: dict[str, list[MentionRecord]] = {}
    for item in mentions:
        by_chunk.setdefault(item.uuid, []).append(item)
    writer.put_mentions(SPACE, by_chunk)


NAMED, HIDDEN = pack([1.0, 2.0]), pack([3.0, -1.0])
SECRET = entity_id("secret gene")
BRIDGE = entity_id("bridge")


def fill(writer: GraphWriter) -> None:
    """Load a small clinic: open and closed chunks, an ontology, an obsolete term, open facts."""
    writer.put_chunks(
        [
            chunk("a", "d1", topic="seizure"),
            chunk("b", "d2"),
            chunk("c", "d3", acl=("doctors",)),
            chunk("d", "d4", topic="seizure"),
            chunk("z", "d9", namespace="other"),
        ]
    )
    writer.put_entities(
        [
            entity(
                "HP:0001250", "Seizures", "Phenotype", synonyms=("Epileptic fit",), vector=NAMED
            ),
            entity("HP:0000001", "Old fits", obsolete=True, replaced_by="hp:0001250"),
            entity("MONDO:1", "Crohn's disease", "Disease"),
            entity("HP:0000118", "Phenotypic abnormality", "Phenotype"),
            entity(BRIDGE, "bridge", listed=False),
            entity(SECRET, "secret gene", listed=False, vector=HIDDEN),
            entity("HP:0001250", "Elsewhere", namespace="other"),
        ]
    )
    writer.put_relations(
        [
            relation("HP:0001250", "is_a", "HP:0000118"),
            relation("MONDO:1", "has_symptom", "HP:0001250", evidence="b", weight=2.0),
            relation(SECRET, "causes", "MONDO:1", evidence="c"),
            relation("MONDO:1", "is_a", "MONDO:99"),
        ]
    )
    put_mentions(
        writer,
        mention("a", "HP:0001250", 9, 17),
        mention("a", "HP:0001250", 2, 10),
        mention("a", "HP:0001250", about=True),
        mention("a", BRIDGE),
        mention("b", "MONDO:1", 0, 15),
        mention("b", BRIDGE, 20, 26),
        mention("c", SECRET),
        mention("c", "MONDO:1"),
        mention("d", BRIDGE, 1, 7),
    )
    elsewhere = number("z", "other")
    writer.put_mentions("other", {elsewhere: [MentionRecord(uuid=elsewhere, entity="HP:0001250")]})
    writer.close_load()


@pytest.fixture
def store(empty: Store) -> Store:
    fill(empty.writer)
    return empty


def slice_of(store: Store, scope: Scope = EVERYBODY, **request: Any) -> GraphSlice:
    return store.graph.slice(SliceRequest.model_validate(request), scope, soon())


def chunk_ids(part: GraphSlice) -> set[str]:
    return {item.chunk_id for item in part.chunks}


def entity_ids(part: GraphSlice) -> set[str]:
    return {item.id for item in part.entities}


@pytest.mark.parametrize(
    ("direction", "reached"),
    [("out", {"HP:0000118"}), ("in", {"MONDO:1"}), ("both", {"HP:0000118", "MONDO:1"})],
)
def test_relations_are_followed_in_the_direction_asked_for(
    store: Store, direction: str, reached: set[str]
) -> None:
    fields = {"direction": direction, "chunks_per_entity": 0, "about_per_entity": 0}
    part = slice_of(store, entity_ids=("HP:0001250",), **fields)
    assert entity_ids(part) == {"HP:0001250"} | reached
    request = SliceRequest.model_validate(fields)
    wider = store.graph.widen(("HP:0001250",), request, EVERYBODY, soon())
    assert entity_ids(wider) == {"HP:0001250"} | reached


def test_names_in_questions_bring_their_chunks_and_neighbours(store: Store) -> None:
    part = slice_of(store, alias_keys=question_keys("Does crohn's disease cause epileptic fits?"))
    assert {(m.key, m.entity_id, m.preferred) for m in part.aliases} == {
        ("crohn s disease", "MONDO:1", True),
        ("crohn disease", "MONDO:1", False),
        ("epileptic fit", "HP:0001250", False),
    }
    assert chunk_ids(part) == {"a", "b", "c"}
    assert {"HP:0001250", "MONDO:1", "HP:0000118", "MONDO:99", SECRET} <= entity_ids(part)
    counts = {item.id: item.mentions for item in part.entities}
    assert (counts["HP:0001250"], counts["MONDO:1"], counts["HP:0000118"]) == (1, 2, 0)
    spans = {(m.uuid, m.entity_id): (m.start, m.end) for m in part.mentions}
    assert spans[number("a"), "HP:0001250"] == (2, 10)
    heads = {(m.uuid, m.entity_id) for m in part.mentions if m.about}
    assert heads == {(number("a"), "HP:0001250")}
    edges = {(r.source, r.type, r.target): r for r in part.relations}
    edge = edges["MONDO:1", "has_symptom", "HP:0001250"]
    assert (edge.evidence_uuid, edge.evidence_chunk_id) == (number("b"), "b")
    assert (edge.evidence_start, edge.evidence_end, edge.weight) == (3, 9, 2.0)
    assert edges["HP:0001250", "is_a", "HP:0000118"].evidence_uuid is None


def test_opened_chunks_bring_entities_and_chunks_about_them(store: Store) -> None:
    part = slice_of(store, chunk_uuids=(number("d"),))
    assert (chunk_ids(part), entity_ids(part)) == ({"d"}, {BRIDGE})
    put_mentions(store.writer, mention("b", BRIDGE, about=True))
    store.writer.close_load()
    part = slice_of(store, chunk_uuids=(number("d"),))
    assert chunk_ids(part) == {"d", "b"}
    assert {item.id: (item.mentions, item.heads) for item in part.entities} == {BRIDGE: (3, 1)}
    assert {(m.uuid, m.about) for m in part.mentions} == {(number("d"), False), (number("b"), True)}
    assert chunk_ids(slice_of(store, chunk_uuids=(number("d"),), about_per_entity=0)) == {"d"}
    narrow = Scope(namespace=SPACE, doc_ids=("d4",))
    assert chunk_ids(slice_of(store, narrow, chunk_uuids=(number("d"),))) == {"d"}


def test_documents_and_topics_open_their_chunks(store: Store) -> None:
    part = slice_of(store, groups=("topic:seizure", "doc:d2", "doc:none"))
    assert part.members == (
        ("doc:d2", number("b")),
        *(("topic:seizure", uuid) for uuid in sorted((number("a"), number("d")))),
    )
    assert {"a", "b", "d"} <= chunk_ids(part)
    assert {"HP:0001250", "MONDO:1"} <= entity_ids(part)
    first = slice_of(
        store, groups=("topic:seizure",), chunks_per_group=1, preferred_uuids=(number("d"),)
    )
    assert first.members == (("topic:seizure", number("d")),)
    assert slice_of(store, STRANGER, groups=("doc:d3",)).members == ()
    narrow = Scope(namespace=SPACE, filter={"doc_id": ["d1"]})
    assert slice_of(store, narrow, groups=("topic:seizure",)).members == (
        ("topic:seizure", number("a")),
    )


def test_preferred_chunks_about_an_entity_come_first(empty: Store) -> None:
    empty.writer.put_chunks([chunk(f"m{i}", "manual") for i in range(40)])
    empty.writer.put_entities([entity("X:1", "The manual", listed=False)])
    put_mentions(empty.writer, *(mention(f"m{i}", "X:1", about=True) for i in range(40)))
    empty.writer.close_load()
    wanted = tuple(number(f"m{i}") for i in (39, 5, 17))
    opened = slice_of(
        empty, chunk_uuids=(number("m0"),), preferred_uuids=wanted, about_per_entity=3
    )
    assert chunk_ids(opened) == {"m0", "m39", "m5", "m17"}
    two = slice_of(
        empty, entity_ids=("X:1",), preferred_uuids=wanted, about_per_entity=2, chunks_per_entity=0
    )
    assert chunk_ids(two) == {"m39", "m5"}
    assert two.entities[0].heads == 40
    assert len(slice_of(empty, entity_ids=("X:1",)).chunks) == 10


def test_names_without_a_mention_end_with_their_load(empty: Store) -> None:
    """A load killed after its names leaves none; other namespaces' loads leave them alone."""
    killed = [entity("X:1", "killed", listed=False), entity("X:2", "listed")]
    loading = [entity("X:1", "loading", listed=False).model_copy(update={"namespace": "other"})]
    empty.writer.put_chunks([chunk("b", "d1", namespace="other"), chunk("a", "d2")])
    empty.writer.put_entities([*killed, *loading])
    empty.writer.delete(SPACE, [number("a")])
    empty.writer.close_load(SPACE)
    assert [row.id for row in empty.writer.stored_entities(SPACE)] == ["X:2"]
    assert not any(name == "killed" for name, *_ in empty.writer.aliases(SPACE))
    uuid_other = number("b", "other")
    record = MentionRecord(uuid=uuid_other, entity="X:1")
    empty.writer.put_mentions("other", {uuid_other: [record]})
    empty.writer.close_load("other")
    assert [row.name for row in empty.writer.stored_entities("other")] == ["loading"]


def test_an_entity_in_a_single_chunk_leads_nowhere(empty: Store) -> None:
    empty.writer.put_chunks([chunk("one", "d1"), chunk("two", "d2")])
    names = ("lonely", "shared", "heading")
    empty.writer.put_entities([entity(f"X:{name}", name, listed=False) for name in names])
    put_mentions(
        empty.writer,
        mention("one", "X:lonely"),
        mention("one", "X:shared"),
        mention("one", "X:heading", about=True),
        mention("two", "X:shared"),
    )
    empty.writer.close_load()
    around = {"X:shared", "X:heading"}
    assert entity_ids(slice_of(empty, chunk_uuids=(number("one"),))) == around
    assert entity_ids(slice_of(empty, alias_keys=("lonely",))) == around | {"X:lonely"}


def test_a_further_hop_includes_edges_to_fetched_entities(store: Store) -> None:
    first = slice_of(store, entity_ids=("MONDO:1",))
    assert "HP:0001250" in entity_ids(first)
    further = slice_of(store, entity_ids=("HP:0001250",), known_ids=tuple(entity_ids(first)))
    assert {(r.source, r.target) for r in further.relations} == {
        ("HP:0001250", "HP:0000118"),
        ("MONDO:1", "HP:0001250"),
    }
    assert (number("a"), BRIDGE) in {(m.uuid, m.entity_id) for m in further.mentions}


def test_the_loader_reads_labels_stated_ends_and_recogniser(store: Store) -> None:
    labels = {row[0]: row[1:] for row in store.writer.labels(SPACE)}
    assert list(labels) == sorted(labels) and number("z", "other") not in labels
    node = ChunkNode(
        uuid=number("a"), chunk_id="a", namespace=SPACE, doc_id="d9", title="T", section="S"
    )
    store.writer.put_chunks([node])
    assert {row[0]: row[1:] for row in store.writer.labels(SPACE)} == {
        **labels,
        number("a"): ("d9", "T", "S"),
    }
    uuids = [number("a"), number("b"), number("c")]
    store.writer.put_names(SPACE, {uuids[0]: "one", uuids[1]: '["two", "\u00e4\\ud800"]'})
    store.writer.put_chunks([node])
    stored = dict(store.writer.names(SPACE))
    assert stored.keys() == labels.keys()
    assert {uuid: text for uuid, text in stored.items() if text} == {
        uuids[1]: '["two", "\u00e4\\ud800"]'  # writing a chunk again clears its names
    }
    assert store.writer.relation_ends(SPACE, uuids) == {
        number("b"): {"MONDO:1", "HP:0001250"},
        number("c"): {SECRET, "MONDO:1"},
    }
    mentioned = store.writer.most_mentioned(SPACE, 3)
    assert [(item.id, item.name, item.mentions) for item in mentioned] == [
        (BRIDGE, "bridge", 3),
        ("MONDO:1", "Crohn's disease", 2),
        ("HP:0001250", "Seizures", 1),
    ]
    assert [item.heads for item in mentioned] == [0, 0, 1]
    assert not store.writer.recogniser(SPACE)
    for name in ("one", "two"):
        store.writer.note_recogniser(SPACE, name)
        assert store.writer.recogniser(SPACE) == name
    assert not store.writer.recogniser("other")
    store.writer.delete(SPACE, None)
    assert not store.writer.recogniser(SPACE)


def test_curies_and_obsolete_terms_find_the_current_term(store: Store) -> None:
    assert "HP:0001250" in entity_ids(slice_of(store, entity_ids=("hp:0001250",)))
    assert slice_of(store, alias_keys=("hp 0001250",)).aliases[0].entity_id == "HP:0001250"
    part = slice_of(store, alias_keys=("old fit",))
    assert [m.entity_id for m in part.aliases] == ["HP:0001250"]
    assert chunk_ids(slice_of(store, entity_ids=("HP:0000001",))) == {"a"}
    old = store.graph.entities(["hp:0000001", "nowhere"], EVERYBODY, soon())
    assert [(item.id, item.obsolete, item.replaced_by) for item in old] == [
        ("HP:0000001", True, "hp:0001250")
    ]


@pytest.mark.parametrize(
    ("scope", "chunks", "count", "knows"),
    [
        (EVERYBODY, {"a", "b", "c"}, 2, True),
        (DOCTOR, {"a", "b", "c"}, 2, True),
        (STRANGER, {"a", "b"}, 1, False),
        (Scope(namespace=SPACE, groups=("nurses",)), {"a", "b"}, 1, False),
    ],
)
def test_closed_chunks_are_neither_seen_nor_counted(
    store: Store, scope: Scope, chunks: set[str], count: int, knows: bool
) -> None:
    part = slice_of(store, scope, entity_ids=("MONDO:1", SECRET))
    assert chunk_ids(part) == chunks
    assert {item.id: item.mentions for item in part.entities}["MONDO:1"] == count
    assert (SECRET in entity_ids(part)) is knows
    assert any(r.type == "causes" for r in part.relations) is knows
    assert bool(store.graph.entities([SECRET], scope, soon())) is knows
    assert bool(store.graph.names([SECRET], scope, soon())) is knows
    assert bool(relations_from(store.graph, [SECRET], scope, soon())) is knows
    assert bool(slice_of(store, scope, alias_keys=("secret gene",)).aliases) is knows


def test_namespaces_do_not_mix(store: Store) -> None:
    other = Scope(namespace="other")
    part = slice_of(store, other, entity_ids=("HP:0001250", "MONDO:1"), chunk_uuids=(number("a"),))
    assert chunk_ids(part) == {"z"}
    assert [(item.id, item.name) for item in part.entities] == [("HP:0001250", "Elsewhere")]
    assert slice_of(store, Scope(namespace="nobody"), alias_keys=("seizures",)) == GraphSlice()
    both = Scope(namespace=SPACE, others=("other",))
    alone, joined = (slice_of(store, s, entity_ids=("HP:0001250",)) for s in (EVERYBODY, both))
    assert chunk_ids(joined) == chunk_ids(alone) | {"z"}
    counts = [next(e.mentions for e in p.entities if e.id == "HP:0001250") for p in (alone, joined)]
    assert counts[1] == counts[0]
    assert set(joined.relations) == set(alone.relations)
    names = store.graph.names(["HP:0001250"], both, soon())
    assert names == store.graph.names(["HP:0001250"], EVERYBODY, soon())


def test_filter_and_documents_bound_chunks_but_not_counts(store: Store) -> None:
    by_topic = Scope(namespace=SPACE, filter={"topic": ("seizure",)})
    part = slice_of(store, by_topic, entity_ids=(BRIDGE,))
    assert chunk_ids(part) == {"a", "d"}
    assert {item.id: item.mentions for item in part.entities}[BRIDGE] == 3
    both = Scope(namespace=SPACE, filter={"topic": ("seizure",), "doc_id": ("d4", "d2")})
    assert chunk_ids(slice_of(store, both, entity_ids=(BRIDGE,))) == {"d"}
    for doc_ids, chunks in ((("d2",), {"b"}), ((), set())):
        routed = Scope(namespace=SPACE, doc_ids=doc_ids)
        part = slice_of(store, routed, entity_ids=(BRIDGE,), chunk_uuids=(number("a"),))
        assert chunk_ids(part) == chunks


def test_types_and_relations_bound_additions_only(store: Store) -> None:
    for kind in ("hp", "PHENOTYPE"):
        part = slice_of(store, entity_ids=("MONDO:1",), entity_types=(kind,))
        assert entity_ids(part) == {"MONDO:1", "HP:0001250"}
    related = slice_of(store, entity_ids=("MONDO:1",), relations=("IS_A",))
    assert {r.type for r in related.relations} == {"is_a"}
    assert "MONDO:99" in entity_ids(related)
    assert SECRET not in entity_ids(related)


def test_one_more_hop(store: Store) -> None:
    part = store.graph.widen(["HP:0001250", "gone:1"], SliceRequest(), EVERYBODY, soon())
    assert chunk_ids(part) == {"a"}
    assert entity_ids(part) == {"HP:0001250", "HP:0000118", "MONDO:1"}


def test_names_and_leaving_relations(store: Store) -> None:
    ids = ["hp:0001250", "MONDO:99", "no:1"]
    assert store.graph.names(ids, EVERYBODY, soon()) == {
        "HP:0001250": ("Seizures", "Epileptic fit"),
        "MONDO:99": ("MONDO:99",),
    }
    relations = relations_from(store.graph, ["MONDO:1"], EVERYBODY, soon())
    assert [(r.type, r.target) for r in relations] == [
        ("has_symptom", "HP:0001250"),
        ("is_a", "MONDO:99"),
    ]


def test_vectors_of_names_are_those_of_the_load(store: Store) -> None:
    ids = ["hp:0001250", "MONDO:1", SECRET, "no:1"]
    seen = {"HP:0001250": NAMED}
    assert store.graph.vectors(ids, EVERYBODY, soon()) == seen | {SECRET: HIDDEN}
    assert store.graph.vectors(ids, STRANGER, soon()) == seen
    assert store.graph.vectors([], EVERYBODY, soon()) == {}


def test_info_counts_after_a_load(store: Store) -> None:
    info = store.graph.info(soon())
    assert (info.chunks, info.entities, info.relations, info.mentions) == (5, 8, 4, 8)
    assert info.namespaces == ("default", "other")


def test_linker_and_alias_index_find_the_same(store: Store) -> None:
    linker = Linker(store.writer.aliases(SPACE))
    for text in ("old fits", "Crohn’s diseases and HP:0001250", "the Secret Gene of MONDO:99"):
        by_linker = {i for match in linker.find(text) for i in match.entity_ids}
        part = slice_of(store, alias_keys=question_keys(text))
        assert by_linker == {match.entity_id for match in part.aliases}
    assert ("seizures", "HP:0001250", True) in list(store.writer.aliases(SPACE))


def test_second_load_changes_nothing(store: Store) -> None:
    before = list(graph_rows(store.writer, SPACE))
    assert before
    fill(store.writer)
    assert list(graph_rows(store.writer, SPACE)) == before
    assert {row[0] for row in store.writer.labels(SPACE)} == {number(name) for name in "abcd"}


def test_deleting_takes_what_nothing_supports(store: Store) -> None:
    assert store.writer.delete(SPACE, [number("c"), number("nowhere")]) == 1
    store.writer.close_load()
    assert store.graph.entities([SECRET], EVERYBODY, soon()) == ()
    assert store.graph.entities(["MONDO:1"], EVERYBODY, soon())[0].mentions == 1
    assert not any(r.type == "causes" for r in slice_of(store, entity_ids=("MONDO:1",)).relations)
    assert store.writer.delete(SPACE, None) == 3
    store.writer.close_load()
    assert slice_of(store, entity_ids=("MONDO:1",), alias_keys=("seizures",)) == GraphSlice()
    assert list(graph_rows(store.writer, SPACE)) == []
    assert chunk_ids(slice_of(store, Scope(namespace="other"), entity_ids=("HP:0001250",))) == {"z"}


def test_mentions_are_replaced_and_counts_follow(store: Store) -> None:
    store.writer.put_mentions(SPACE, {number("d"): [], number("a"): []})
    store.writer.close_load()
    assert chunk_ids(slice_of(store, entity_ids=(BRIDGE,))) == {"b"}
    assert store.graph.entities([BRIDGE], EVERYBODY, soon())[0].mentions == 1


def test_slices_keep_their_caps_alike_in_every_store(empty: Store, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with in_sqlite(tmp_path / "model") as model:
        for side in (empty, model):
            crowd(side.writer)
        pool = tuple(number(f"c{i}") for i in (7, 30, 2, 55, 41))
        for caps in (
            {"max_nodes": 40},
            {"max_nodes": 25, "chunks_per_entity": 3, "neighbours_per_entity": 2},
            {"max_nodes": 600, "chunks_per_entity": 4},
            {"about_per_entity": 2, "known_ids": ("X:1", "X:11", "X:23"), "max_nodes": 12},
        ):
            request: dict[str, Any] = {
                "chunk_uuids": pool[:3],
                "preferred_uuids": pool,
                "alias_keys": ("e1", "e4"),
                "entity_ids": ("X:5",),
                **caps,
            }
            part = slice_of(empty, **request)
            assert len(part.chunks) + len(part.entities) <= caps["max_nodes"]
            assert part == slice_of(model, **request)
            assert part == slice_of(empty, **request)
            closed = Scope(namespace=SPACE, groups=(), filter={"topic": ("t0", "t1")})
            assert slice_of(empty, closed, **request) == slice_of(model, closed, **request)
            wide = SliceRequest.model_validate({"chunk_uuids": pool, **caps})
            frontier = ["x:3", "X:0", "X:9"]
            assert empty.graph.widen(frontier, wide, EVERYBODY, soon()) == model.graph.widen(
                frontier, wide, EVERYBODY, soon()
            )
        hub = slice_of(empty, entity_ids=("X:0",), max_nodes=20)
        assert len(hub.chunks) + len(hub.entities) == 20


def crowd(writer: GraphWriter) -> None:
    """Load 60 chunks around 30 entities, some of them hubs."""
    chance = random.Random(7)
    names = [f"X:{i}" for i in range(30)]
    writer.put_chunks(
        [
            chunk(f"c{i}", f"d{i // 2}", topic=f"t{i % 3}", acl=("g",) if i % 7 == 0 else ())
            for i in range(60)
        ]
    )
    writer.put_entities(
        [
            entity(name, f"E{i}", "odd" if i % 2 else "even", listed=i % 5 == 0)
            for i, name in enumerate(names)
        ]
    )
    mentions = []
    for i in range(60):
        head = "X:0" if i % 3 else f"X:{i % 30}"
        entities = {"X:0", *chance.sample(names, chance.randint(0, 6)), head}
        mentions += [mention(f"c{i}", e, 1, 2, about=e == head) for e in sorted(entities)]
    put_mentions(writer, *mentions)
    writer.put_relations(
        [
            relation(a, chance.choice("pq"), b, evidence=f"c{chance.randrange(60)}", weight=w)
            for w, (a, b) in enumerate(
                (chance.choice(names), chance.choice(names)) for _ in range(80)
            )
        ]
    )
    writer.close_load()
