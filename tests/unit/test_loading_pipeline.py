"""Contents of both stores after a load, in any order and after any number of runs."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts.graph import SliceRelation
from docstokg.contracts.records import FoundName, Scope
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.same_names import SAME_AS
from docstokg.domain.identity import chunk_uuid, entity_id
from docstokg.errors import LoadError, Misconfigured
from docstokg.loading.context import LoadOptions, LoadReport
from docstokg.loading.pipeline import delete_document, load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.write.edges import stating_sentence
from docstokg.loading.write.removal import delete_namespace
from docstokg.usecases.check_consistency import relations_from
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.conftest import write_corpus
from tests.embedded_store import NS, EmbeddedStore

SCOPE = Scope(namespace=NS)
Rows = list[dict[str, Any]]

CHUNKS: Rows = [
    {"id": "c1", "doc_id": "d1", "title": "Seizure", "text": "Seizures start in the brain."},
    {
        "id": "c2",
        "doc_id": "d2",
        "title": "Brain",
        "text": "The brain is an organ. A seizure hurts.",
    },
    {"id": "c3", "doc_id": "d3", "text": "Dravet syndrome shows status epilepticus (SE)."},
    {"id": "c4", "doc_id": "d4", "text": "SE is dangerous.", "acl": ["staff"]},
]
ENTITIES: Rows = [
    {"id": "HP:0001250", "name": "Seizure", "type": "Phenotype", "synonyms": ["Fit"]},
    {"id": "MONDO:1", "name": "Dravet syndrome"},
]
RELATIONS: Rows = [
    {"source": "MONDO:1", "type": "has_phenotype", "target": "HP:0001250",
     "evidence": {"chunk_id": "c3", "start": 0, "end": 15}, "frequency": "3/4"},
    {"source": "HP:0001250", "type": "is_a", "target": "HP:0000118"},
]  # fmt: skip
TRIPLES: Rows = [
    {"doc_id": "d2", "subject": "brain", "relation": "is an", "object": "organ"},
    {"chunk_id": "c1", "subject": "seizures", "relation": "start in", "object": "the brain"},
]


EVERYTHING: dict[str, Rows | str] = {
    "chunks": CHUNKS,
    "entities": ENTITIES,
    "relations": RELATIONS,
    "triples": TRIPLES,
}


class Store(EmbeddedStore):
    def folder(self, name: str, **files: Rows | str) -> Path:
        """Write files into a folder beside the store."""
        return write(self.path.parent / name, **files)

    def put(self, name: str, **files: Rows | str) -> LoadReport:
        """Write files into a folder and load it."""
        return self.load(self.folder(name, **files))

    def chunk_count(self) -> int:
        return self.wiring.search_index().info(Deadline.after(5)).chunks

    def relations(self, *ids: str) -> tuple[SliceRelation, ...]:
        graph = self.wiring.knowledge_graph()
        return relations_from(graph, list(ids), SCOPE, Deadline.after(5))

    def names(self) -> set[str]:
        return {name for _, name in self.mentions()}

    def mentions(self) -> set[tuple[str, str]]:
        return {(chunk, entity) for chunk, entity, _ in self._mentions()}

    def abouts(self) -> set[tuple[str, str]]:
        return {(chunk, entity) for chunk, entity, about in self._mentions() if about}

    def _mentions(self) -> Iterator[tuple[str, str, bool]]:
        names = {chunk_uuid(NS, f"c{n}"): f"c{n}" for n in range(10)}
        for row in self.content():
            if row.startswith("mention "):
                uuid, entity, _, _, about = json.loads(row[8:])[:5]
                yield names.get(uuid, uuid), entity, about


type Stores = Callable[[], Store]


@pytest.fixture
def another(tmp_path: Path) -> Stores:
    number = count()
    return lambda: Store(tmp_path / f"store{next(number)}.sqlite")


@pytest.fixture
def store(another: Stores) -> Store:
    return another()


def write(folder: Path, **files: Rows | str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        if isinstance(rows, str):
            (folder / f"{name}.md").write_text(rows, encoding="utf-8")
        else:
            write_corpus(folder, {f"{name}.jsonl": rows})
    return folder


def test_load_fills_both_stores(store: Store):
    report = store.put("in", **EVERYTHING)
    assert (report.chunks, report.written, report.rejected) == (4, 4, 0)
    assert store.chunk_count() == 4
    graph = store.wiring.knowledge_graph()
    assert graph.info(Deadline.after(5)).chunks == 4
    assert graph.names(["HP:0001250"], SCOPE, Deadline.after(5)) == {
        "HP:0001250": ("Seizure", "Fit")
    }
    relations = store.relations("MONDO:1", "HP:0001250", entity_id("brain"))
    edges = {(r.source, r.type, r.target, r.evidence_chunk_id) for r in relations}
    assert edges == {
        ("MONDO:1", "has_phenotype", "HP:0001250", "c3"),
        ("HP:0001250", "is_a", "HP:0000118", None),
        (entity_id("brain"), "is an", entity_id("organ"), "c2"),
    }


def test_titles_abbreviations_and_lists_become_mentions(store: Store):
    store.put("in", **EVERYTHING)
    brain, status = entity_id("brain"), entity_id("status epilepticus")
    short = entity_id("SE")
    assert store.mentions() >= {
        ("c1", "HP:0001250"),
        ("c1", entity_id("the brain")),
        ("c1", brain),
        ("c2", "HP:0001250"),
        ("c2", brain),
        ("c2", entity_id("organ")),
        ("c3", "MONDO:1"),
        ("c3", status),
        ("c3", "HP:0001250"),
        ("c3", short),
        ("c4", short),
    }
    assert [(row.type, row.target) for row in store.relations(status)] == [(SAME_AS, short)]
    title = store.wiring.knowledge_graph().entities([brain, status], SCOPE, Deadline.after(5))
    assert [entity.type for entity in title] == ["Title", None]


def test_triple_end_resolves_to_the_named_curie(store: Store):
    store.put("in", **EVERYTHING)
    # "seizures" is no name of HP:0001250 as written, so it stays a thing of its own.
    assert [r.type for r in store.relations("HP:0001250")] == ["is_a"]
    assert [r.type for r in store.relations(entity_id("seizures"))] == ["start in"]


@pytest.mark.parametrize("at_once", [True, False])
def test_facts_have_the_acl_of_their_evidence(store: Store, at_once: bool):
    ends = {"source": "MONDO:1", "target": "HP:0001250"}
    rows = [*RELATIONS, {**ends, "type": "risks", "evidence": {"chunk_id": "c4"}}]
    if at_once:
        store.put("in", chunks=CHUNKS, entities=ENTITIES, relations=rows)
    else:
        store.put("texts", chunks=CHUNKS, entities=ENTITIES)
        store.put("later", relations=rows)
    facts = [json.loads(row.split(" ", 2)[2]) for row in store.content() if row.startswith("fact ")]
    texts = {fact["text"]: (fact["doc_id"], fact["acl"]) for fact in facts}
    assert texts["Dravet syndrome has phenotype Seizure"] == ("d3", [])
    assert texts["Seizure is a HP:0000118"] == (None, [])
    assert "staff" in str(texts["Dravet syndrome risks Seizure"][1])


def test_second_load_changes_nothing(store: Store):
    first = store.put("in", **EVERYTHING)
    before = store.content()
    second = store.put("in")
    assert (second.written, second.unchanged) == (0, 4)
    assert store.content() == before
    uuid, index = chunk_uuid(NS, "c1"), store.wiring.search_index()
    chunk = index.get([uuid], SCOPE, Deadline.after(5)).chunks[uuid]
    assert chunk.run_id == first.run_id != second.run_id


@pytest.mark.parametrize("first", ["chunks", "entities", "triples"])
def test_names_link_texts_in_any_load_order(store: Store, another: Stores, first: str):
    unsaid = {"chunk_id": "c2", "subject": "cortex", "relation": "is a", "object": "part"}
    parts = {"chunks": CHUNKS, "entities": ENTITIES, "triples": [*TRIPLES, unsaid]}
    store.put("all", **parts)
    other = another()
    for name in sorted(parts, key=lambda name: name != first):
        other.put(name, **{name: parts[name]})
    if first == "triples":
        # Without their chunks they were rejected; now those are there.
        assert other.put("triples").rejected == 0
    assert ("c2", entity_id("cortex")) in store.mentions()
    assert other.mentions() == store.mentions()


def test_changed_text_replaces_chunk_and_statements(store: Store):
    store.put("in", **EVERYTHING)
    changed = [*CHUNKS[:2], {**CHUNKS[2], "text": "Nothing of it."}, CHUNKS[3]]
    report = store.put("new", chunks=changed)
    assert (report.written, report.unchanged) == (1, 3)
    assert store.relations("MONDO:1") == ()
    assert not any("has phenotype" in row for row in store.content() if row.startswith("fact"))
    assert ("c3", "MONDO:1") not in store.mentions()


def test_document_is_replaced_as_a_whole(store: Store, another: Stores):
    long = "# Whale\n\nBig.\n\n## Blue whale\n\nBlue.\n\n## Orca\n\nBlack.\n"
    store.put("in", whale=long)
    assert store.chunk_count() == 3
    report = store.put("in", whale="# Whale\n\nSmall now.\n")
    assert report.removed == 2
    other = another()
    other.put("in")
    assert store.content() == other.content()
    store.put("in", whale="---\ntitle: empty\n---\n")
    assert store.chunk_count() == 0


def test_line_documents_are_replaced_only_on_request(store: Store):
    rows = [{"id": f"c{n}", "doc_id": "d", "text": f"Part {n}."} for n in range(3)]
    store.put("v1", chunks=rows)
    store.put("v2", chunks=rows[:1])
    assert store.chunk_count() == 3
    store.load(store.path.parent / "v2", replace_docs=True)
    assert store.chunk_count() == 1


def test_bad_lines_are_rejected_with_their_place(store: Store, tmp_path: Path):
    folder = write(tmp_path / "in", **EVERYTHING)
    edge = {"source": "A:1", "type": "t", "target": "A:2"}
    bad_lines: dict[str, list[Any]] = {
        "chunks": [
            {"id": "c1", "doc_id": "d1", "text": "Other words."},
            CHUNKS[1],
            "a text",
            {"id": "c8", "doc_id": "d8", "text": "x", "embedding": [1, 0]},
            {"id": "c9", "doc_id": "d9", "text": "x", "embedding": [1, 0, 0]},
        ],
        "relations": [
            {**edge, "evidence": {"chunk_id": "no"}},
            {**edge, "evidence": {"chunk_id": "c4", "start": 0, "end": 999}},
        ],
        "triples": [{"doc_id": "nowhere", "subject": "a", "relation": "b", "object": "c"}],
        "entities": [{"id": "HP:0001250", "name": "Another name"}],
    }
    for name, rows in bad_lines.items():
        with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    report = store.load(folder)
    assert report.rejected == store.rejects.count == 7
    reasons = {f"{Path(r.file).name}:{r.line}": r.reason for r in store.rejects.first}
    assert set(reasons) == {
        "chunks.jsonl:5",
        "chunks.jsonl:7",
        "chunks.jsonl:9",
        "relations.jsonl:3",
        "relations.jsonl:4",
        "triples.jsonl:3",
        "entities.jsonl:3",
    }
    assert "repeated with different text" in reasons["chunks.jsonl:5"]
    assert "3 numbers, but the index has 2" in reasons["chunks.jsonl:9"]
    assert store.chunk_count() == 5


def test_given_mentions_are_kept(store: Store):
    rows = [
        {"id": "c1", "doc_id": "d", "text": "Seizure here.", "mentions": []},
        {"id": "c2", "doc_id": "d", "text": "Seizure here.",
         "mentions": [{"entity": "X:7", "start": 0, "end": 7},
                      {"entity": "a name", "start": 8, "end": 12}]},
    ]  # fmt: skip
    store.put("in", chunks=rows, entities=ENTITIES)
    assert store.mentions() == {("c2", "X:7"), ("c2", entity_id("a name"))}
    store.put("more", entities=[{"id": "Y:1", "name": "here"}])
    assert store.mentions() == {("c2", "X:7"), ("c2", entity_id("a name"))}


def test_chunk_is_about_title_heading_and_given_entities(store: Store):
    rows = [
        {"id": "c1", "doc_id": "d", "title": "Epilepsy", "text": "It hurts here."},
        {"id": "c2", "doc_id": "e", "text": "Seizure and epilepsy here.",
         "mentions": [{"entity": "X:7", "about": True},
                      {"entity": "X:8", "start": 0, "end": 7, "about": True},
                      {"entity": "Epilepsy", "start": 12, "end": 20}]},
    ]  # fmt: skip
    store.put("in", chunks=rows)
    epilepsy = entity_id("Epilepsy")
    assert store.mentions() == {("c1", epilepsy), ("c2", epilepsy), ("c2", "X:7"), ("c2", "X:8")}
    assert store.abouts() == {("c1", epilepsy), ("c2", "X:7"), ("c2", "X:8")}


def test_deleted_document_leaves_both_stores(store: Store):
    empty = store.content()
    store.put("in", **EVERYTHING)
    assert delete_document(store.stores, NS, "d3") == 1
    assert delete_document(store.stores, NS, "d3") == 0
    assert store.chunk_count() == 3
    assert store.relations("MONDO:1") == ()
    assert delete_namespace(store.stores, NS) == 3
    assert store.content() == empty


def test_missing_sources_are_errors(store: Store, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "data.bin").write_bytes(b"\0\1\2")
    for source in ("absent", "empty"):
        with pytest.raises(LoadError):
            store.load(tmp_path / source)
    assert store.load(tmp_path / "data.bin").rejected == 1


def test_other_vector_space_is_refused_before_writing(store: Store, tmp_path: Path):
    rows = [{"id": "c1", "doc_id": "d", "text": "x", "embedding": [1, 0, 0]}]
    store.put("in", chunks=rows)
    before = store.content()

    class TwoNumbers:
        model = "two"
        dimension = 2

        def embed(self, *_: object) -> Any:
            raise AssertionError("never reached")

        embed_parts = embed

    wiring = Wiring(store.wiring.settings, ports={"embedder": TwoNumbers(), "sparse_encoder": None})
    folder = write(tmp_path / "more", chunks=[{"id": "c2", "doc_id": "d", "text": "y"}])
    with pytest.raises(Misconfigured):
        load([folder], LoadOptions(), stores_of(wiring), RejectLog())
    assert store.content() == before


def test_triple_evidence_is_its_sentence():
    text = "Nothing. The Brain is an organ! More brain."
    assert stating_sentence(text, "brain", "Organ") == (9, 31)
    assert stating_sentence(text, "brain", "nothing") is None
    assert stating_sentence(text, "brain", "liver") is None


MANUALS = {
    f"page{n}": f"# Tool{n}x\n\nTool{n}x reads what Marie Dupont wrote.\n\n## Handy stuff\n\n"
    f"Handy stuff of Tool{(n + 1) % 6}x and of the Northwind Vault.\n"
    for n in range(6)
}


def test_names_become_entities_but_common_labels_do_not(store: Store, another: Stores):
    report = store.put("all", **MANUALS)
    names = store.names()
    assert entity_id("Marie Dupont") in names and entity_id("Northwind Vault") in names
    assert entity_id("Tool3x") in names
    assert entity_id("Handy stuff") not in names  # it heads a section in six documents
    assert {name for _, name in store.abouts()} == {entity_id(f"Tool{n}x") for n in range(6)}
    assert report.names_by == "capitals-4"
    parts = another(), another()
    for part, order in zip(parts, (sorted(MANUALS), sorted(MANUALS, reverse=True)), strict=True):
        for number, page in enumerate(order):
            part.put(f"{number}{page}", **{page: MANUALS[page]})
        assert part.content() == store.content()


class Shouts:
    """A recogniser that knows one name."""

    model = "shouts==1"

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        name = FoundName("Northwind Vault", "Organization")
        return tuple((name,) if name.text in text else () for text in texts)


def test_other_recogniser_renames_earlier_chunks(store: Store, another: Stores):
    old, new = dict(list(MANUALS.items())[:4]), dict(list(MANUALS.items())[4:])
    store.put("old", **old)
    assert entity_id("Marie Dupont") in store.names()
    clean = another()
    for row in (store, clean):
        row.stores = replace(row.stores, names=Shouts())
    store.put("new", **new)
    clean.put("all", **MANUALS)
    assert store.content() == clean.content()
    assert entity_id("Marie Dupont") not in store.names()
    assert store.wiring.graph_writer().recogniser(NS) == "shouts==1"
