"""Export and import of a namespace."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.errors import LoadError, Misconfigured
from docstokg.loading.context import LoadOptions, Stores
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.transfer.export_file import load_export, manifest_of
from docstokg.loading.transfer.exporting import content_digest, export
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.builders import settings_at
from tests.conftest import CORPUS, write_corpus

NS = "default"
HTML = "<html><body><main><h1>Otters</h1><p>The sea otter dives.</p></main></body></html>"


ADDED: dict[str, list[dict[str, Any]]] = {
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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> tuple[Stores, Path, Path]:
    """Return a loaded store with both encoders, its folder, and its export."""
    folder = tmp_path_factory.mktemp("moving")
    write_corpus(folder / "corpus", CORPUS)
    write_corpus(folder / "corpus", ADDED)
    (folder / "corpus" / "otter.html").write_text(HTML)
    stores = stores_at(folder / "store.sqlite", cache_dir, embed=True)
    report = load([folder / "corpus"], LoadOptions(NS), stores, RejectLog())
    assert report.rejected == 0
    export(stores, NS, folder / "moved.zip")
    return stores, folder / "corpus", folder / "moved.zip"


MINE = {"id": "x", "doc_id": "x", "text": "Own text."}
SPACES = ("mine", "theirs")


def test_import_equals_its_source_and_files_are_unchanged(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    stores, folder, moved = source
    other = stores_at(tmp_path / "store.sqlite", cache_dir)
    for _ in range(2):
        rejects = RejectLog()
        report = load_export(moved, NS, other, rejects)
        assert rejects.first == []
        assert content_digest(other, NS) == content_digest(stores, NS) == manifest_of(moved).digest
    assert (report.written, report.unchanged) == (0, report.chunks)
    assert report.chunks > len(CORPUS["chunks.jsonl"])
    assert other.register.text(NS, "otter.html") == stores.register.text(NS, "otter.html")
    embedding = stores_at(tmp_path / "store.sqlite", cache_dir, True)
    again = load([folder], LoadOptions(NS), embedding, RejectLog())
    assert (again.written, again.removed) == (0, 0)
    assert content_digest(other, NS) == content_digest(stores, NS)
    assert export(other, NS, tmp_path / "again.zip") == manifest_of(moved).counts


def test_changed_file_replaces_imported_document(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    """The file is accepted although its folder is not the one of the import."""
    other = stores_at(tmp_path / "store.sqlite", cache_dir, embed=True)
    load_export(source[2], NS, other, RejectLog())
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "otter.html").write_text(HTML.replace("dives", "sleeps"))
    rejects = RejectLog()
    assert load([tmp_path / "folder"], LoadOptions(NS), other, rejects).written == 1
    assert rejects.first == []


def test_import_adds_to_other_documents(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    moved = source[2]
    other = stores_at(tmp_path / "store.sqlite", cache_dir)
    folder = write_corpus(tmp_path / "mine", {"chunks.jsonl": [MINE]})
    load([folder], LoadOptions("mine", embed=False), other, RejectLog())
    rejects = RejectLog()
    load_export(moved, "mine", other, rejects)
    load_export(moved, "theirs", other, rejects)
    assert rejects.first == []
    ids = [{c.chunk_id for c, _ in other.index_writer.stored_chunks(ns)} for ns in SPACES]
    assert ids[0] - ids[1] == {"x"}
    assert len(ids[1]) == manifest_of(moved).counts["chunks"]


def test_import_into_another_vector_space_is_refused(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    other = stores_at(tmp_path / "store.sqlite", cache_dir)
    rows = [MINE | {"embedding": [1.0, 2.0, 3.0]}]
    folder = write_corpus(tmp_path / "mine", {"chunks.jsonl": rows})
    load([folder], LoadOptions(NS, embed=False), other, RejectLog())
    with pytest.raises(Misconfigured):
        load_export(source[2], NS, other, RejectLog())


class Killed(BaseException):
    """The process has ended."""


def test_killed_import_ends_equal(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    stores, _, moved = source
    other = stores_at(tmp_path / "store.sqlite", cache_dir)

    def kill(*_: object) -> None:
        raise Killed

    for port, write in ((other.index_writer, "put_facts"), (other.graph_writer, "close_load")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(port, write, kill)
            with pytest.raises(Killed):
                load_export(moved, NS, other, RejectLog())
    load_export(moved, NS, other, RejectLog())
    assert content_digest(other, NS) == content_digest(stores, NS)


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


def computed(**fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a change of the computed fields of a line."""
    return lambda row: row | {"docstokg": row["docstokg"] | fields}


PLAIN = {"chunk_id": "plain", "start": 0, "end": 100_000}


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        ("chunks", lambda row: "{", "not JSON"),
        ("chunks", computed(uuid="x"), "uuid: unknown field"),
        ("chunks", computed(vector="AAAA"), "not float32"),
        ("chunks", computed(vector="AACAfw=="), "not a unit vector"),
        ("chunks", computed(vector="!"), "not base64"),
        ("chunks", computed(sentence_vectors="AAAA"), "must be one per sentence"),
        ("chunks", computed(weights={"a": -1}), "greater than 0"),
        ("chunks", computed(names=[[1]]), "must be a string"),
        ("chunks", lambda row: row | {"text": "\0"}, "NUL"),
        ("documents", lambda row: row | {"sha256": "short"}, "match"),
        ("documents", lambda row: row | {"acl": []}, "unknown field"),
        ("entities", lambda row: row | {"name": ""}, "at least 1"),
        ("entities", lambda row: row | {"id": "ent:0123456789abcdef"}, "is not a CURIE"),
        ("entities", computed(vector="AACAPw=="), "numbers, but the index has 384"),
        ("relations", lambda row: row | {"evidence": {"chunk_id": "none"}}, "is not loaded"),
        ("relations", lambda row: row | {"evidence": PLAIN}, "is not a span"),
        ("relations", computed(properties=[]), "object"),
    ],
)
def test_forged_line_is_rejected_with_its_place(
    source: tuple[Stores, Path, Path],
    tmp_path: Path,
    cache_dir: Path,
    part: str,
    change: Callable[[Any], Any],
    reason: str,
) -> None:
    forged = rewritten(source[2], tmp_path / "forged.zip", part, change)
    rejects = RejectLog()
    load_export(forged, NS, stores_at(tmp_path / "store.sqlite", cache_dir), rejects)
    reasons = [str(row) for row in rejects.first if f"{part}.jsonl:1:" in str(row)]
    assert len(reasons) == 1, rejects.first
    assert reason in reasons[0]


def test_vector_of_another_dimension_is_rejected(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    change = computed(vector="AACAPw==", sentence_vectors="")
    forged = rewritten(source[2], tmp_path / "forged.zip", "chunks", change)
    rejects = RejectLog()
    load_export(forged, NS, stores_at(tmp_path / "store.sqlite", cache_dir), rejects)
    assert "1 numbers, but the index has 384" in str(rejects.first[0])


def test_forged_text_is_replaced_by_the_next_load(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    stores, folder, moved = source

    def forge(row: dict[str, Any]) -> dict[str, Any]:
        return computed(sentence_vectors="")(row | {"text": f"Never {row['text']}"})

    forged = rewritten(moved, tmp_path / "forged.zip", "chunks", forge)
    other = stores_at(tmp_path / "store.sqlite", cache_dir, embed=True)
    load_export(forged, NS, other, RejectLog())
    assert content_digest(other, NS) != content_digest(stores, NS)
    report = load([folder], LoadOptions(NS), other, RejectLog())
    assert report.written == 1
    assert content_digest(other, NS) == content_digest(stores, NS)


def test_other_files_are_refused_before_any_write(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    stores = stores_at(tmp_path / "store.sqlite", cache_dir)
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as file:
        file.writestr("../outside", "")
    with (
        zipfile.ZipFile(source[2]) as file,
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb,
        zipfile.ZipFile(tmp_path / "old.zip", "w") as old,
    ):
        for name in file.namelist():
            text = b" " * 50_000_000 if name == "relations.jsonl" else file.read(name)
            bomb.writestr(name, text)
            old.writestr(name, file.read(name).replace(b'"format": 2', b'"format": 1'))
    for name in ("text", "more", "bomb", "old"):
        with pytest.raises(LoadError):
            load_export(tmp_path / f"{name}.zip", NS, stores, RejectLog())
    assert not (tmp_path / "store.sqlite").exists()


def test_empty_namespace_is_not_exported(source: tuple[Stores, Path, Path], tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="is empty"):
        export(source[0], "nobody", tmp_path / "file.zip")
    assert list(tmp_path.iterdir()) == []
