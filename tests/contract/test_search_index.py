"""What every search index promises, asked of the fake, the embedded one and the real server."""

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from docstokg.adapters.sqlite.index import SqliteIndex
from docstokg.adapters.sqlite.index_writer import SqliteIndexWriter
from docstokg.contracts.records import CALLED, ChunkRecord, DocumentChange, FactRecord, Scope
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult
from docstokg.domain.vectors import pack, packed, quantise
from docstokg.errors import DocsToKGError, Misconfigured, Unavailable
from docstokg.loading.transfer.contents import index_rows
from docstokg.ports import IndexWriter, SearchIndex
from tests.contract.real import opensearch_store
from tests.plans import soon
from tests.services import SERVICES

SCOPE = Scope(namespace="ns")
DIMENSION = 8
CHANNELS = ("bm25", "splade", "dense", "facts")


class Store(NamedTuple):
    """Both sides of one store."""

    index: SearchIndex
    writer: IndexWriter


@contextmanager
def in_sqlite(tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "store.sqlite"
    with closing(SqliteIndex(path)) as index, closing(SqliteIndexWriter(path)) as writer:
        yield Store(index, writer)


@pytest.fixture(params=[pytest.param("opensearch", marks=SERVICES), "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with in_sqlite(tmp_path) if request.param == "sqlite" else opensearch_store() as sides:
        store = Store(*sides)
        refuse_if_filled(store.index)
        yield store


def refuse_if_filled(index: SearchIndex) -> None:
    """Tests delete: never run them on somebody's data."""
    try:
        info = index.info(soon())
    except Unavailable:
        return
    if info.chunks or info.facts:
        raise RuntimeError("this store is not empty; the contract suite refuses to touch it")


def uid(name: str, namespace: str = "ns") -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"docstokg:{namespace}/{name}"))


def axis(*numbers: int, turn: float = 0.0) -> bytes:
    """A unit vector along some axes, turned a little towards the last one."""
    vector = np.zeros(DIMENSION)
    vector[list(numbers)] = 1.0
    vector[-1] += turn
    return pack(vector.tolist())


def chunk(name: str, text: str, *, namespace: str = "ns", **fields: Any) -> ChunkRecord:
    return ChunkRecord(
        **{
            "uuid": uid(name, namespace),
            "chunk_id": name,
            "namespace": namespace,
            "doc_id": f"doc-{name}",
            "text": text,
            "text_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "run_id": "run-1",
            **fields,
        }
    )


def fact(name: str, text: str, evidence: str | None = None, **fields: Any) -> FactRecord:
    return FactRecord(
        **{
            "id": name,
            "namespace": "ns",
            "text": text,
            "source": "ent:a",
            "type": "causes",
            "target": "ent:b",
            "evidence_uuid": None if evidence is None else uid(evidence),
            "doc_id": None if evidence is None else f"doc-{evidence}",
            **fields,
        }
    )


def begin(store: Store, run: str = "run-2", namespace: str = "") -> None:
    store.writer.open_load(run, "model-a", DIMENSION, "sparse-a", namespace)


def fill(store: Store, *chunks: ChunkRecord, facts: Sequence[FactRecord] = ()) -> None:
    begin(store, "run-1")
    store.writer.put([(item, f"print of {item.text}") for item in chunks])
    store.writer.put_facts(list(facts))
    store.writer.close_load()


def search(
    store: Store,
    *,
    text: str = "seizure",
    size: int = 10,
    vector: bytes | None = None,
    weights: dict[str, float] | None = None,
    **scope: Any,
) -> dict[str, ChannelResult]:
    """Ask all four channels at once."""
    queries = [
        ChannelQuery(channel="bm25", size=size, text=text),
        ChannelQuery(channel="splade", size=size, weights=weights or {"seizure": 1.0}),
        ChannelQuery(channel="dense", size=size, vector=vector or axis(0)),
        ChannelQuery(channel="facts", size=size, text=text),
    ]
    results = store.index.search(queries, Scope(**{"namespace": "ns", **scope}), soon())
    assert tuple(result.channel for result in results) == CHANNELS
    assert all(result.failure is None and not result.partial for result in results)
    for result in results:
        order = [(-hit.score, hit.uuid) for hit in result.hits]
        assert order == sorted(order), f"{result.channel} is not by falling score, then uuid"
        ranked = [(-hit.score, hit.id) for hit in result.facts]
        assert ranked == sorted(ranked), "facts are not by falling score, then id"
    return {result.channel: result for result in results}


def seen(result: ChannelResult) -> list[str]:
    return [hit.uuid for hit in result.hits] or [hit.id for hit in result.facts]


def hits_of(results: dict[str, ChannelResult]) -> list[list[str]]:
    """Return the uuids that each chunk channel found."""
    return [seen(results[channel]) for channel in CHANNELS[:3]]


def everywhere(store: Store, **scope: Any) -> list[set[str]]:
    """Return the uuids that each chunk channel finds, as sets."""
    return [set(uuids) for uuids in hits_of(search(store, **scope))]


def seizure(name: str, **fields: Any) -> ChunkRecord:
    """A chunk that every channel finds for the standard question."""
    return chunk(
        name,
        **{
            "text": f"A seizure described in {name}.",
            "sparse": {"seizure": 2.0},
            "vector": axis(0),
            **fields,
        },
    )


def test_every_channel_finds_its_kind_of_match(store: Store) -> None:
    fill(
        store,
        chunk("a", "Epileptic seizures in children.", sparse={"fit": 1.5}, vector=axis(1)),
        chunk("b", "Bone fractures of the arm.", sparse={"bone": 1.0}, vector=axis(2)),
        chunk("c", "Nothing of interest.", title="Kidney", vector=axis(3)),
        facts=(fact("f1", "seizure causes fatigue"), fact("f2", "bone part of skeleton")),
    )
    results = search(store, text="seizure?", weights={"bone": 2.0, "absent": 1.0}, vector=axis(3))
    assert seen(results["bm25"]) == [uid("a")]
    assert seen(results["splade"]) == [uid("b")]
    assert seen(results["dense"])[0] == uid("c")
    assert results["dense"].hits[0].score == pytest.approx(1.0, abs=1e-3)
    assert seen(results["facts"]) == ["f1"]
    hit = results["facts"].facts[0]
    assert (hit.source, hit.type, hit.target) == ("ent:a", "causes", "ent:b")
    assert seen(search(store, text="kidneys")["bm25"]) == [uid("c")], "titles are searched, stemmed"


def test_names_of_entities_are_asked_for_alone(store: Store) -> None:
    """Facts of relations and of names share a store; neither takes a place of the other."""
    names = fact(
        f"{CALLED}:ex:1", "Seizure\nFit\nConvulsion", source="ex:1", type=CALLED, target="ex:1"
    )
    fill(store, chunk("a", "Seizure."), facts=(fact("f1", "seizure causes a fit"), names))
    relations = ChannelQuery(channel="facts", size=1, text="fit")
    queries = [relations, relations.model_copy(update={"names": True})]
    result, called = store.index.search(queries, SCOPE, soon())
    assert [hit.id for hit in result.facts] == ["f1"]
    assert [(hit.source, hit.text) for hit in called.facts] == [("ex:1", names.text)]
    assert store.index.info(soon()).facts == 1, "names are not counted as facts"
    assert [*store.writer.stored_facts("ns")] == [names, fact("f1", "seizure causes a fit")]


def test_options_are_whole_words_and_headings_are_searched(store: Store) -> None:
    fill(
        store,
        chunk("a", "Use -k to go on.", sparse={"k": 1.0}, vector=axis(1)),
        chunk("b", "Use -K FILE to read more from FILE."),
        chunk("c", "The letter k alone, and a --k nobody has."),
        chunk("d", "It overwrites what is there.", headings=("Options", "--force-with-lease")),
    )
    assert seen(search(store, text="-k")["bm25"])[0] == uid("a")
    assert seen(search(store, text="-K")["bm25"])[0] == uid("b")
    assert seen(search(store, text="--k")["bm25"])[0] == uid("c")
    assert seen(search(store, text="--force-with-lease?")["bm25"]) == [uid("d")]
    fill(store, chunk("a", "Another text.", sparse={"k": 1.0}, vector=axis(1)))
    assert uid("a") not in seen(search(store, text="-k")["bm25"])


def test_hits_carry_vector_and_document(store: Store) -> None:
    fill(store, seizure("a", vector=axis(0, 1)), chunk("b", "A seizure without a vector."))
    results = search(store)
    expected = quantise(axis(0, 1))
    vectors = {hit.uuid: hit.vector for hit in results["bm25"].hits}
    assert vectors == {uid("a"): expected, uid("b"): None}
    for channel in ("dense", "splade"):
        assert [hit.vector for hit in results[channel].hits] == [expected]
    documents = {hit.uuid: hit.doc_id for result in results.values() for hit in result.hits}
    assert documents == {uid(name): f"doc-{name}" for name in "ab"}


def test_sentence_vectors_are_returned_for_visible_chunks(store: Store) -> None:
    two = packed([axis(0), axis(1)])
    fill(
        store,
        seizure("a", sentence_vectors=two, sentences=((0, 4), (5, 9))),
        seizure("b", sentence_vectors=packed([axis(2)]), acl=("red",)),
        seizure("c"),
    )
    wanted = [uid("a"), uid("b"), uid("c"), uid("absent"), uid("a")]
    of_a, of_b = {uid("a"): two}, {uid("b"): packed([axis(2)])}
    for scope, vectors in (
        ({}, of_a | of_b), ({"groups": ()}, of_a), ({"doc_ids": ("doc-b",)}, of_b),
        ({"namespace": "other"}, {}),
    ):  # fmt: skip
        chosen = Scope(**{"namespace": "ns", **scope})
        assert store.index.sentence_vectors(wanted, chosen, soon()) == vectors
    assert store.index.sentence_vectors([], SCOPE, soon()) == {}
    fill(store, seizure("a"))
    assert store.index.sentence_vectors([uid("a")], SCOPE, soon()) == {}
    before = list(index_rows(store.writer, "ns"))
    fill(store, seizure("a", sentence_vectors=packed([axis(3)])))
    assert list(index_rows(store.writer, "ns")) != before


def test_an_unknown_namespace_is_empty_and_nothing_failed(store: Store) -> None:
    fill(store, seizure("a"))
    assert everywhere(store, namespace="other") == [set(), set(), set()]
    assert store.index.get([uid("a")], Scope(namespace="other"), soon()).missing == (uid("a"),)


def test_namespaces_never_meet(store: Store) -> None:
    fill(
        store,
        seizure("a"),
        seizure("a", namespace="other"),
        facts=(
            fact("f", "seizure one"),
            fact("f", "seizure two", namespace="other", source="ent:other"),
        ),
    )
    assert everywhere(store) == [{uid("a")}] * 3
    assert everywhere(store, namespace="other") == [{uid("a", "other")}] * 3
    assert [hit.source for hit in search(store, namespace="other")["facts"].facts] == ["ent:other"]
    both = {uid("a"), uid("a", "other")}
    assert everywhere(store, others=("other",)) == [both] * 3
    facts = search(store, others=("other",))["facts"].facts
    assert {hit.source for hit in facts} == {"ent:a", "ent:other"}
    assert len(seen(search(store, others=("other",), size=1)["bm25"])) == 1
    hydrated = store.index.get([*both, uid("b")], Scope(namespace="ns", others=("other",)), soon())
    assert (set(hydrated.chunks), hydrated.missing) == (both, (uid("b"),))
    assert store.writer.fingerprints("other", [uid("a")]) == {}
    assert store.writer.delete("other", None) == 1
    store.writer.close_load()
    assert everywhere(store) == [{uid("a")}] * 3
    assert seen(search(store)["facts"]) == ["f"]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (None, {"open", "red", "both"}), ((), {"open"}), (("red",), {"open", "red", "both"}),
        (("blue", "green"), {"open", "both"}), (("gr",), {"open"}),
    ],
)  # fmt: skip
def test_access_lists_hide_chunks_and_facts(
    store: Store, groups: tuple[str, ...] | None, expected: set[str]
) -> None:
    lists = {"open": (), "red": ("red",), "both": ("red", "blue")}
    fill(
        store,
        *(seizure(name, acl=acl) for name, acl in lists.items()),
        facts=tuple(fact(name, "seizure", name, acl=acl) for name, acl in lists.items()),
    )
    assert everywhere(store, groups=groups) == [{uid(name) for name in expected}] * 3
    assert set(seen(search(store, groups=groups)["facts"])) == expected
    scope = Scope(namespace="ns", groups=groups)
    hydrated = store.index.get([uid(name) for name in lists], scope, soon())
    assert set(hydrated.chunks) == {uid(name) for name in expected}
    assert set(hydrated.missing) == {uid(name) for name in lists.keys() - expected}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"topic": ("epilepsy",)}, {"a", "b"}), ({"topic": ("epilepsy",), "year": (2020,)}, {"a"}),
        ({"year": (2020, 2021)}, {"a", "b"}), ({"year": (2020.0,)}, {"a"}),
        ({"year": ("2020",)}, {"a"}), ({"codes": ("HP:2",)}, {"b", "c"}),
        ({"peer reviewed": (True,)}, {"c"}), ({"document_name": ("Book",)}, {"c"}),
        ({"doc_id": ("doc-a", "doc-c")}, {"a", "c"}), ({"section": ("nowhere",)}, set()),
        ({"a\"b' OR 1=1 --": ("x",)}, set()),
    ],
)  # fmt: skip
def test_filters_join_keys_by_and_values_by_or(
    store: Store, conditions: dict[str, tuple[Any, ...]], expected: set[str]
) -> None:
    fill(
        store,
        seizure("a", topics=("epilepsy",), metadata={"year": 2020, "codes": ["HP:1"]}),
        seizure("b", topics=("epilepsy", "x"), metadata={"year": 2021, "codes": ["HP:1", "HP:2"]}),
        seizure("c", document_name="Book", metadata={"codes": "HP:2", "peer reviewed": True}),
    )
    uuids = {uid(name) for name in expected}
    assert everywhere(store, filter=conditions) == [uuids] * 3
    scope = Scope(namespace="ns", filter=conditions)
    assert store.index.get([uid("a"), uid("b"), uid("c")], scope, soon()).chunks.keys() == uuids


def test_doc_ids_restrict_chunks_and_facts(store: Store) -> None:
    fill(
        store,
        seizure("a"),
        seizure("b"),
        facts=(fact("f1", "seizure", "a"), fact("f2", "seizure", "b")),
    )
    assert everywhere(store, doc_ids=("doc-b", "doc-z")) == [{uid("b")}] * 3
    assert seen(search(store, doc_ids=("doc-b",))["facts"]) == ["f2"]
    assert everywhere(store, doc_ids=()) == [set()] * 3
    assert everywhere(store, doc_ids=("doc-a",), filter={"doc_id": ("doc-b",)}) == [set()] * 3


def test_visibility_acts_before_the_cut(store: Store) -> None:
    best = seizure("best", acl=("staff",), text="Seizure seizure seizure.", sparse={"seizure": 5.0})
    others = [
        seizure(f"n{i}", text="A seizure among many other words.", vector=axis(0, turn=0.5))
        for i in range(5)
    ]
    fill(store, best, *others)
    results = search(store, size=1)
    assert hits_of(results) == [[uid("best")]] * 3
    hidden = search(store, size=5, groups=())
    expected = sorted(item.uuid for item in others)
    assert hits_of(hidden) == [expected] * 3


def test_ties_are_cut_by_uuid(store: Store) -> None:
    twins = [seizure(f"t{i}", text="The very same seizure.") for i in range(12)]
    fill(store, *twins, facts=tuple(fact(f"f{i:02d}", "seizure") for i in range(12)))
    results = search(store, size=5)
    expected = sorted(item.uuid for item in twins)[:5]
    assert hits_of(results) == [expected] * 3
    assert seen(results["facts"]) == [f"f{i:02d}" for i in range(5)]


@pytest.mark.parametrize("size", [1, 4, 9, 30])
def test_unrestricted_and_fully_granted_callers_get_the_same(store: Store, size: int) -> None:
    """A store that is quicker for the first gives the same hits, scores and facts."""
    words = ("seizure", "seizure and fever", "fever", "seizure seizure")
    chunks = [seizure(f"c{i:02d}", text=f"A {words[i % 4]}.", acl=["red"]) for i in range(14)]
    facts = tuple(fact(f"f{i:02d}", words[i % 4], f"c{i:02d}", acl=["red"]) for i in range(14))
    fill(store, *chunks, facts=facts)
    text = "seizure fever"
    everything = search(store, text=text, size=size)
    by_group = search(store, text=text, size=size, groups=("red",))
    for channel in CHANNELS:
        unfiltered, other = everything[channel], by_group[channel]
        assert (unfiltered.hits, unfiltered.facts) == (other.hits, other.facts)
        assert len(seen(unfiltered)) == min(size, 14)


def test_a_changed_chunk_replaces_the_old_one(store: Store) -> None:
    fill(store, seizure("a"), seizure("b"))
    changed = chunk(
        "a", "Now about fractures.", sparse={"bone": 1.0}, vector=axis(4), run_id="run-2"
    )
    fill(store, changed)
    assert store.index.info(soon()).chunks == 2
    results = search(store, text="seizure fractures", weights={"seizure": 1.0})
    assert seen(results["splade"]) == [uid("b")]
    assert set(seen(results["bm25"])) == {uid("a"), uid("b")}
    assert seen(results["dense"])[0] == uid("b")
    results = search(store, text="fracture", weights={"bone": 1.0}, vector=axis(4))
    assert [uuids[0] for uuids in hits_of(results)] == [uid("a")] * 3
    assert store.writer.fingerprints("ns", [uid("a"), uid("b"), uid("c")]) == {
        uid("a"): "print of Now about fractures.",
        uid("b"): "print of A seizure described in b.",
    }
    assert store.index.get([uid("a")], SCOPE, soon()).chunks[uid("a")].run_id == "run-2"


def test_batches_are_written_whole_or_not_at_all(store: Store) -> None:
    fill(store, seizure("a"))
    begin(store)
    wrong = seizure("c", vector=pack([1.0, 0.0]))
    with pytest.raises(DocsToKGError):
        store.writer.put([(seizure("b"), "1"), (wrong, "2")])
    store.writer.close_load()
    assert store.index.info(soon()).chunks == 1
    assert everywhere(store) == [{uid("a")}] * 3


def test_deleting_takes_the_stated_facts_along(store: Store) -> None:
    fill(
        store,
        seizure("a"),
        seizure("b"),
        facts=(fact("f1", "seizure", "a"), fact("f2", "seizure", "b"), fact("f3", "seizure")),
    )
    assert store.writer.delete("ns", [uid("a"), uid("a", "other"), "unknown"]) == 1
    store.writer.close_load()
    assert everywhere(store) == [{uid("b")}] * 3
    assert seen(search(store)["facts"]) == ["f2", "f3"]
    info = store.index.info(soon())
    assert (info.chunks, info.facts) == (1, 2)
    assert store.index.get([uid("a")], SCOPE, soon()).missing == (uid("a"),)


def test_documents_list_their_chunks(store: Store) -> None:
    fill(store, seizure("a", doc_id="d"), seizure("b", doc_id="d"), seizure("c", doc_id="e"))
    assert store.writer.doc_uuids("ns", "d") == tuple(sorted([uid("a"), uid("b")]))
    assert store.writer.doc_uuids("other", "d") == ()


def test_a_stored_document_changes_in_one_step(store: Store) -> None:
    old = [chunk(f"c{n}", f"old {n}", doc_id="d") for n in range(4)]
    facts = (fact("f1", "old seizure", "c1"), fact("f0", "kept seizure", "c0"))
    fill(store, *old, facts=facts)
    new = chunk("c1", "new 1", doc_id="d")
    store.writer.open_load("run-2", None, None, None)
    change = DocumentChange(
        namespace="ns",
        doc_id="d",
        chunks=[(new, "mark")],
        unchanged_uuids=[uid("c0"), uid("c2")],
        outdated_uuids=[uid("c1")],
        removed_uuids=[uid("c3")],
        generation="01B",
    )
    assert store.writer.put_document(change) == 1
    store.writer.close_load()
    everything = store.index.get([uid(f"c{n}") for n in range(4)], SCOPE, soon())
    texts = {uuid: stored.text for uuid, stored in everything.chunks.items()}
    assert texts == {uid("c0"): "old 0", uid("c1"): "new 1", uid("c2"): "old 2"}
    assert store.writer.fingerprints("ns", [uid("c1"), uid("c3")]) == {uid("c1"): "mark"}
    query = ChannelQuery(channel="facts", size=10, text="seizure")
    assert seen(*store.index.search([query], SCOPE, soon())) == ["f0"]


def test_a_document_that_gains_a_chunk_stays_whole(store: Store) -> None:
    fill(store, chunk("c0", "first", doc_id="d"))
    for name, generation in (("c1", "01B"), ("c2", "01C")):
        earlier_uuids = store.writer.doc_uuids("ns", "d")
        change = DocumentChange(
            "ns", "d", [(chunk(name, name, doc_id="d"), "m")], earlier_uuids, [], [], generation
        )
        store.writer.open_load("run", None, None, None)
        assert store.writer.put_document(change) == 0
        store.writer.close_load()
    hydrated = store.index.get([uid(f"c{n}") for n in range(3)], SCOPE, soon())
    assert len(hydrated.chunks) == 3


def test_another_embedding_model_is_refused(store: Store) -> None:
    fill(store, seizure("a"))
    with pytest.raises(Misconfigured, match="model-a"):
        store.writer.open_load("run-2", "model-b", DIMENSION, "sparse-a")
    info = store.index.info(soon())
    spaces = (info.embedding_model, info.dimension, info.sparse_model)
    assert spaces == ("model-a", DIMENSION, "sparse-a")


def test_loads_are_unfinished_until_closed_in_their_namespace(store: Store) -> None:
    def unfinished() -> dict[str, str]:
        return store.index.info(soon(), refresh=True).unfinished

    fill(store, seizure("a"))
    assert unfinished() == {}
    begin(store, "killed", "one")
    assert unfinished() == {"one": "killed"}
    assert store.index.generation(["one"], soon()) is None
    before = store.index.generation(["two"], soon())
    assert before is not None
    begin(store, "other", "two")
    assert unfinished() == {"one": "killed", "two": "other"}
    store.writer.close_load("two")
    assert unfinished() == {"one": "killed"}
    assert store.index.generation(["two", "one"], soon()) is None
    assert store.index.generation(["two"], soon()) not in (None, before)
    begin(store, "again", "one")
    store.writer.close_load("one")
    assert unfinished() == {}


def test_loads_of_earlier_versions_count_as_unfinished(store: Store) -> None:
    begin(store, "old")
    info = store.index.info(soon(), refresh=True)
    assert (info.open_run("one"), info.open_run("two")) == ("old", "old")
    assert store.index.generation(["one"], soon()) is None
    begin(store, "new", "one")
    store.writer.close_load("one")
    assert store.index.info(soon(), refresh=True).unfinished == {}


def test_every_load_and_removal_has_a_distinct_name(store: Store) -> None:
    names = []
    for step in (lambda: fill(store, seizure("a")), lambda: store.writer.delete("default", None)):
        begin(store, "run")
        assert store.index.generation(["default"], soon()) is None
        step()
        store.writer.close_load()
        names.append(store.index.generation(["default"], soon()))
        assert store.index.generation(["default"], soon()) == names[-1]
    assert None not in names
    assert len(set(names)) == 2


def test_an_index_without_vectors_says_dense_is_unavailable(store: Store) -> None:
    store.writer.open_load("run-1", None, None, None)
    store.writer.put([(chunk("a", "A seizure."), "1")])
    store.writer.close_load()
    queries = [
        ChannelQuery(channel="bm25", size=5, text="seizure"),
        ChannelQuery(channel="dense", size=5, vector=axis(0)),
    ]
    words, dense = store.index.search(queries, SCOPE, soon())
    assert seen(words) == [uid("a")]
    assert dense.failure == "unavailable"


def test_everything_stored_comes_back(store: Store) -> None:
    text = "Erste Zeile.\nZweite 😀 Zeile – مرحبا."
    full = chunk(
        "a",
        text,
        title="Título",
        document_name="Buch 1",
        page="iv",
        section="2.1 Éléments",
        uri="https://example.org/a?b=c#d",
        anchor="two-one",
        char_start=1200,
        metadata={"deep": {"a": [1, 2]}},
        topics=("t1", "t2"),
        acl=("g",),
        sentences=((0, 12), (13, 34)),
        vector=axis(0, 2),
        run_id="run-7",
    )
    fill(store, full, chunk("b", "Kurz.", page=12))
    hydrated = store.index.get([uid("b"), uid("a"), "gone", uid("a")], SCOPE, soon())
    stored = hydrated.chunks[uid("a")]
    for name in type(stored).model_fields:
        if name not in ("vector", "generation"):
            assert getattr(stored, name) == getattr(full, name), name
    assert stored.vector == quantise(axis(0, 2))
    assert hydrated.chunks[uid("b")].page == 12
    assert hydrated.chunks[uid("b")].vector is None
    assert hydrated.missing == ("gone",)
    assert hydrated.failed == ()


def test_the_digest_depends_on_content_alone(store: Store, tmp_path: Path) -> None:
    chunks = [seizure(f"c{i}", acl=("x", "y"), metadata={"b": 1, "a": [2]}) for i in range(5)]
    facts = [fact(f"f{i}", f"fact {i}", "c1") for i in range(3)]
    fill(store, *chunks, facts=facts)
    first = list(index_rows(store.writer, "ns"))
    assert len(first) == 8
    assert first == sorted(first)
    assert list(index_rows(store.writer, "other")) == []
    store.writer.delete("ns", None)
    begin(store, "run-9")
    for item in reversed(chunks):
        store.writer.put([(item.model_copy(update={"run_id": "run-9"}), f"print of {item.text}")])
    store.writer.put_facts(facts[::-1])
    store.writer.put_facts(facts[:1])
    store.writer.close_load()
    assert list(index_rows(store.writer, "ns")) == first
    fill(store, seizure("c0", text="Other words."))
    assert list(index_rows(store.writer, "ns")) != first


@pytest.mark.parametrize(
    "text",
    [
        '"',
        "seizure AND (",
        "NOT seizure NEAR/2 (x y)",
        "title:seizure OR text:*",
        "^seizure* + -x {a b}: c",
        "'; DROP TABLE index_rows; --",
        "😀🧠 seizure",
        "\u202eseizure\u202c \u200f\u2066",
        "seizure " + "lorem ipsum dolor sit amet " * 150,
        " ".join(f"word{i}" for i in range(700)) + " seizure",
        "癫痫发作 是 什么",
        "é" * 4096,
        "\\ % _ [ ] ? seizure",
    ],
)
def test_no_question_breaks_the_word_channels(store: Store, text: str) -> None:
    fill(store, seizure("a"), facts=(fact("f", "seizure"),))
    results = search(store, text=text)
    assert set(seen(results["bm25"])) <= {uid("a")}
    if text == "😀🧠 seizure":
        assert seen(results["bm25"]) == [uid("a")]
        assert seen(results["facts"]) == ["f"]


def test_stop_words_alone_find_nothing(store: Store) -> None:
    fill(store, seizure("a", text="What is the matter of it."))
    assert seen(search(store, text="what is the")["bm25"]) == []


def test_nothing_asked_is_nothing_answered(store: Store) -> None:
    fill(store, seizure("a"))
    assert store.index.search([], SCOPE, soon()) == ()
    assert store.index.get([], SCOPE, soon()).chunks == {}
    assert store.writer.fingerprints("ns", []) == {}
