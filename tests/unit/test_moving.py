"""A namespace moves as a file: the same content, nothing encoded again, and no line is believed."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from docstokg.errors import LoadError
from docstokg.loading.context import LoadOptions, Stores
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.transfer.exporting import content_digest, export
from docstokg.loading.transfer.importing import load_export, manifest_of
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.conftest import CORPUS, write_corpus
from tests.embedded_store import settings_at

NS = "default"
HTML = "<html><body><main><h1>Otters</h1><p>The sea otter dives.</p></main></body></html>"


def stores_at(store: Path, cache: Path, embed: bool = False) -> Stores:
    return stores_of(Wiring(settings_at(store, cache_dir=str(cache))), embed)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> tuple[Stores, Path, Path]:
    """A loaded store with both encoders, its folder, and its export."""
    folder = tmp_path_factory.mktemp("moving")
    write_corpus(folder / "corpus", CORPUS)
    (folder / "corpus" / "otter.html").write_text(HTML)
    stores = stores_at(folder / "store.sqlite", cache_dir, embed=True)
    report = load([folder / "corpus"], LoadOptions(NS), stores, RejectLog())
    assert report.rejected == 0
    export(stores, NS, folder / "moved.zip")
    return stores, folder / "corpus", folder / "moved.zip"


def test_another_store_holds_the_same_and_knows_its_files_as_unchanged(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    stores, folder, moved = source
    other = stores_at(tmp_path / "store.sqlite", cache_dir)
    for _ in range(2):
        rejects = RejectLog()
        report = load_export(moved, NS, other, rejects)
        assert rejects.first == []
        assert content_digest(other, NS) == content_digest(stores, NS) == manifest_of(moved).digest
    assert report.chunks > len(CORPUS["chunks.jsonl"])
    assert other.register.text(NS, "otter.html") == stores.register.text(NS, "otter.html")
    embedding = stores_at(tmp_path / "store.sqlite", cache_dir, True)
    again = load([folder], LoadOptions(NS), embedding, RejectLog())
    assert (again.written, again.removed) == (0, 0)
    assert content_digest(other, NS) == content_digest(stores, NS)
    assert export(other, NS, tmp_path / "again.zip") == manifest_of(moved).counts


def own(folder: Path, cache: Path) -> tuple[Stores, Path]:
    """A store of its own, and something to load into it."""
    row = {"id": "x", "doc_id": "x", "text": "Own text."}
    return stores_at(folder / "store.sqlite", cache), write_corpus(
        folder / "own", {"chunks.jsonl": [row]}
    )


def test_what_a_load_left_that_never_ended_is_in_the_way_too(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    """The counts of the graph are of the last load that ended: here there is none."""
    _, _, moved = source
    other, folder = own(tmp_path, cache_dir)

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(other.graph_writer, "close_load", kill)
        with pytest.raises(Killed):
            load([folder], LoadOptions("mine", embed=False), other, RejectLog())
    with pytest.raises(LoadError, match="contains 1 chunks that moved"):
        load_export(moved, "mine", other, RejectLog())
    load_export(moved, "mine", other, RejectLog(), only=True)
    assert all(chunk.chunk_id != "x" for chunk, _ in other.index_writer.stored_chunks("mine"))


def test_another_namespace_takes_it_beside_others_but_not_over_others(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    _, _, moved = source
    other, folder = own(tmp_path, cache_dir)
    load([folder], LoadOptions("mine", embed=False), other, RejectLog())
    load_export(moved, "theirs", other, RejectLog())
    with pytest.raises(LoadError, match="contains 1 chunks that moved"):
        load_export(moved, "mine", other, RejectLog())
    load_export(moved, "mine", other, RejectLog(), only=True)
    counts = [sum(1 for _ in other.index_writer.stored_chunks(ns)) for ns in ("mine", "theirs")]
    assert counts[0] == counts[1] == manifest_of(moved).counts["chunks"]


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


@pytest.mark.parametrize(
    ("part", "change", "reason"),
    [
        ("chunks", lambda row: "{", "not JSON"),
        ("chunks", lambda row: row | {"uuid": "x"}, "uuid: unknown field"),
        ("chunks", lambda row: row | {"sentences": [[0, 10_000]]}, "not ordered spans"),
        ("chunks", lambda row: row | {"vector": "AAAA"}, "not float32"),
        ("chunks", lambda row: row | {"vector": "AACAfw=="}, "not a unit vector"),
        ("chunks", lambda row: row | {"vector": "AACAPw=="}, "must have 384"),
        ("chunks", lambda row: row | {"vector": "!"}, "not base64"),
        ("chunks", lambda row: row | {"sentence_vectors": "AAAA"}, "must be one per sentence"),
        ("chunks", lambda row: row | {"sparse": {"a": -1}}, "greater than 0"),
        ("chunks", lambda row: row | {"text": "\0"}, "NUL"),
        ("documents", lambda row: row | {"sha256": "short"}, "match"),
        ("entities", lambda row: row | {"name": ""}, "at least 1"),
        ("relations", lambda row: row | {"evidence": "nowhere"}, "is not in this file"),
        ("relations", lambda row: row | {"evidence": "plain", "evidence_start": 5}, "not a span"),
        ("facts", lambda row: row | {"acl": []}, "unknown field"),
        ("mentions", lambda row: row | {"end": 10_000}, "is not a span|set together"),
        ("mentions", lambda row: row | {"chunk": "nowhere"}, "is not in this file"),
    ],
)
def test_a_line_that_does_not_fit_is_rejected_with_its_place(
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
    said = [str(one) for one in rejects.first if f"{part}.jsonl:1:" in str(one)]
    assert len(said) == 1
    assert any(word in said[0] for word in reason.split("|")), said


def test_a_forged_fingerprint_does_not_shield_a_forged_text(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    stores, folder, moved = source

    def never(row: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in row.items() if not key.startswith("sentence")}
        return kept | {"text": f"Never {row['text']}"}

    forged = rewritten(moved, tmp_path / "forged.zip", "chunks", never)
    other = stores_at(tmp_path / "store.sqlite", cache_dir, embed=True)
    load_export(forged, NS, other, RejectLog())
    assert content_digest(other, NS) != content_digest(stores, NS)
    report = load([folder], LoadOptions(NS), other, RejectLog())
    assert report.written == 1
    assert content_digest(other, NS) == content_digest(stores, NS)


def test_what_is_no_export_is_refused_before_anything_is_written(
    source: tuple[Stores, Path, Path], tmp_path: Path, cache_dir: Path
) -> None:
    stores = stores_at(tmp_path / "store.sqlite", cache_dir)
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as file:
        file.writestr("../outside", "")
    with (
        zipfile.ZipFile(source[2]) as file,
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for name in file.namelist():
            text = b" " * 50_000_000 if name == "facts.jsonl" else file.read(name)
            bomb.writestr(name, text)
    for name in ("text", "more", "bomb"):
        with pytest.raises(LoadError):
            load_export(tmp_path / f"{name}.zip", NS, stores, RejectLog())
    assert not (tmp_path / "store.sqlite").exists()


def test_an_empty_namespace_and_an_unfinished_load_are_not_exported(
    source: tuple[Stores, Path, Path], tmp_path: Path
) -> None:
    stores, _, _ = source
    with pytest.raises(LoadError, match="is empty"):
        export(stores, "nobody", tmp_path / "file.zip")
    assert list(tmp_path.iterdir()) == []
