"""Export and import of a namespace."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docstokg.contracts import Json
from docstokg.errors import LoadError, Misconfigured
from docstokg.loading.context import LoadOptions, LoadReport, Stores
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.transfer.export_file import load_export, manifest_of
from docstokg.loading.transfer.exporting import content_digest, export
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.builders import settings_at, write_files
from tests.conftest import CORPUS, write_corpus
from tests.run_stages import Killed

NS = "default"
HTML = "<html><body><main><h1>Otters</h1><p>The sea otter dives.</p></main></body></html>"


ADDED: dict[str, list[Json]] = {
    "chunks_given.jsonl": [
        {"id": "given", "doc_id": "g", "text": "Otters eat.", "embedding": [1.0] + [0.5] * 383},
        {"id": "weighed", "doc_id": "g", "text": "Urchins sink.", "sparse": {"urchin": 1.5}},
        {"id": "named", "doc_id": "g", "text": "Kelp grows.", "mentions": [
            {"entity": "Giant Kelp", "start": 0, "end": 4}]},
        {"id": "nameless", "doc_id": "g", "text": "Kelp sways.", "mentions": []},
    ],
    "triples_given.jsonl": [
        {"chunk_id": "given", "subject": "Otters", "relation": "eat_in", "object": "Kelp",
         "weight": 3}
    ],
}  # fmt: skip
"""Vectors, weights, mentions and a triple that come with their files."""


def stores_at(store: Path, cache: Path, embed: bool = False) -> Stores:
    return stores_of(Wiring(settings_at(store, cache_dir=str(cache))), embed)


class Source(NamedTuple):
    """A loaded store with both encoders, its folder, and its export."""

    stores: Stores
    folder: Path
    export: Path

    def digest(self) -> str:
        return content_digest(self.stores, NS)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Source:
    folder = tmp_path_factory.mktemp("moving")
    corpus = write_corpus(folder / "corpus", CORPUS | ADDED)
    (corpus / "otter.html").write_text(HTML)
    stores = stores_at(folder / "store.sqlite", cache_dir, embed=True)
    report = load([corpus], LoadOptions(NS), stores, RejectLog())
    assert report.rejected == 0
    export(stores, NS, folder / "moved.zip")
    return Source(stores, corpus, folder / "moved.zip")


@pytest.fixture
def other(tmp_path: Path, cache_dir: Path) -> Stores:
    """An empty store without encoders."""
    return stores_at(tmp_path / "store.sqlite", cache_dir)


@pytest.fixture
def encoding(tmp_path: Path, cache_dir: Path) -> Stores:
    """The same store with encoders."""
    return stores_at(tmp_path / "store.sqlite", cache_dir, embed=True)


def imported(file: Path, stores: Stores, namespace: str = NS) -> LoadReport:
    rejects = RejectLog()
    report = load_export(file, namespace, stores, rejects)
    assert rejects.first == []
    return report


def load_mine(folder: Path, stores: Stores, namespace: str = NS, **fields: Any) -> None:
    row = {"id": "x", "doc_id": "x", "text": "Own text.", **fields}
    written = write_corpus(folder / "mine", {"chunks.jsonl": [row]})
    load([written], LoadOptions(namespace, embed=False), stores, RejectLog())


SPACES = ("mine", "theirs")


def test_import_equals_its_source_and_files_are_unchanged(
    source: Source, other: Stores, encoding: Stores, tmp_path: Path
) -> None:
    manifest = manifest_of(source.export)
    for _ in range(2):
        report = imported(source.export, other)
        assert content_digest(other, NS) == source.digest() == manifest.digest
    assert (report.written, report.unchanged) == (0, report.chunks)
    assert report.chunks > len(CORPUS["chunks.jsonl"])
    assert other.register.text(NS, "otter.html") == source.stores.register.text(NS, "otter.html")
    again = load([source.folder], LoadOptions(NS), encoding, RejectLog())
    assert (again.written, again.removed) == (0, 0)
    assert content_digest(other, NS) == source.digest()
    assert export(other, NS, tmp_path / "again.zip") == manifest.counts


def test_changed_file_replaces_imported_document(
    source: Source, encoding: Stores, tmp_path: Path
) -> None:
    """The file is accepted although its folder is not the one of the import."""
    load_export(source.export, NS, encoding, RejectLog())
    folder = write_files(tmp_path / "folder", {"otter.html": HTML.replace("dives", "sleeps")})
    rejects = RejectLog()
    assert load([folder], LoadOptions(NS), encoding, rejects).written == 1
    assert rejects.first == []


def test_import_adds_to_other_documents(source: Source, other: Stores, tmp_path: Path) -> None:
    load_mine(tmp_path, other, "mine")
    for namespace in SPACES:
        imported(source.export, other, namespace)
    ids = [{c.chunk_id for c, _ in other.index_writer.stored_chunks(ns)} for ns in SPACES]
    assert ids[0] - ids[1] == {"x"}
    assert len(ids[1]) == manifest_of(source.export).counts["chunks"]


def test_import_into_another_vector_space_is_refused(
    source: Source, other: Stores, tmp_path: Path
) -> None:
    load_mine(tmp_path, other, embedding=[1.0, 2.0, 3.0])
    with pytest.raises(Misconfigured):
        load_export(source.export, NS, other, RejectLog())


def test_killed_import_ends_equal(source: Source, other: Stores) -> None:
    def kill(*_: object) -> None:
        raise Killed

    for port, write in ((other.index_writer, "put_facts"), (other.graph_writer, "close_load")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(port, write, kill)
            with pytest.raises(Killed):
                load_export(source.export, NS, other, RejectLog())
    load_export(source.export, NS, other, RejectLog())
    assert content_digest(other, NS) == source.digest()


def rewritten(moved: Path, target: Path, part: str, change: Callable[[Any], Any]) -> Path:
    """Copy an export with the first line of a part changed."""
    with zipfile.ZipFile(moved) as file, zipfile.ZipFile(target, "w") as other:
        for name in file.namelist():
            lines = file.read(name).decode().splitlines()
            if name == f"{part}.jsonl":
                changed = change(json.loads(lines[0]))
                lines[0] = changed if isinstance(changed, str) else json.dumps(changed)
            other.writestr(name, "\n".join(lines))
    return target


def computed(**fields: Any) -> Callable[[Json], Json]:
    """Return a change of the computed fields of a line."""
    return lambda row: row | {"docstokg": row["docstokg"] | fields}


def stated(**fields: Any) -> Callable[[Json], Json]:
    """Return a change of the other fields of a line."""
    return lambda row: row | fields


PLAIN = {"chunk_id": "plain", "start": 0, "end": 100_000}


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        ("chunks", lambda row: "{", "not JSON"),
        ("chunks", computed(uuid="x"), "uuid: unknown field"),
        ("chunks", computed(vector="AAAA"), "not float32"),
        ("chunks", computed(vector="AACAfw=="), "not a unit vector"),
        ("chunks", computed(vector="!"), "not base64"),
        ("chunks", computed(vector="AACAPw==", sentence_vectors=""), "1 numbers, but the index"),
        ("chunks", computed(sentence_vectors="AAAA"), "must be one per sentence"),
        ("chunks", computed(weights={"a": -1}), "greater than 0"),
        ("chunks", computed(names=[[1]]), "must be a string"),
        ("chunks", stated(text="\0"), "NUL"),
        ("documents", stated(sha256="short"), "match"),
        ("documents", stated(acl=[]), "unknown field"),
        ("entities", stated(name=""), "at least 1"),
        ("entities", stated(id="ent:0123456789abcdef"), "is not a CURIE"),
        ("entities", computed(vector="AACAPw=="), "numbers, but the index has 384"),
        ("relations", stated(evidence={"chunk_id": "none"}), "is not loaded"),
        ("relations", stated(evidence=PLAIN), "is not a span"),
        ("relations", computed(properties=[]), "object"),
    ],
)
def test_forged_line_is_rejected_with_its_place(
    source: Source,
    other: Stores,
    tmp_path: Path,
    part: str,
    change: Callable[[Any], Any],
    reason: str,
) -> None:
    forged = rewritten(source.export, tmp_path / "forged.zip", part, change)
    rejects = RejectLog()
    load_export(forged, NS, other, rejects)
    reasons = [str(row) for row in rejects.first if f"{part}.jsonl:1:" in str(row)]
    assert len(reasons) == 1, rejects.first
    assert reason in reasons[0]


def test_forged_text_is_replaced_by_the_next_load(
    source: Source, encoding: Stores, tmp_path: Path
) -> None:
    def forge(row: Json) -> Json:
        return computed(sentence_vectors="")(row | {"text": f"Never {row['text']}"})

    forged = rewritten(source.export, tmp_path / "forged.zip", "chunks", forge)
    load_export(forged, NS, encoding, RejectLog())
    assert content_digest(encoding, NS) != source.digest()
    report = load([source.folder], LoadOptions(NS), encoding, RejectLog())
    assert report.written == 1
    assert content_digest(encoding, NS) == source.digest()


def test_other_files_are_refused_before_any_write(
    source: Source, other: Stores, tmp_path: Path
) -> None:
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as file:
        file.writestr("../outside", "")
    with (
        zipfile.ZipFile(source.export) as file,
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb,
        zipfile.ZipFile(tmp_path / "old.zip", "w") as old,
    ):
        for name in file.namelist():
            text = b" " * 50_000_000 if name == "relations.jsonl" else file.read(name)
            bomb.writestr(name, text)
            old.writestr(name, file.read(name).replace(b'"format": 2', b'"format": 1'))
    for name in ("text", "more", "bomb", "old"):
        with pytest.raises(LoadError):
            load_export(tmp_path / f"{name}.zip", NS, other, RejectLog())
    assert not (tmp_path / "store.sqlite").exists()


def test_empty_namespace_is_not_exported(source: Source, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="is empty"):
        export(source.stores, "nobody", tmp_path / "file.zip")
    assert list(tmp_path.iterdir()) == []
