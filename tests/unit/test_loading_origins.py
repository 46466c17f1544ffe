"""Two folders with one id, deleted files, and lists."""

import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from docstokg.contracts.records import DocumentRecord
from docstokg.domain.identity import key_of
from docstokg.errors import LoadError
from docstokg.loading.pipeline import delete_document
from docstokg.loading.read.reading import rows_of
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import every_document
from docstokg.loading.read.sources import SourceFile, find_files
from docstokg.loading.write.removal import delete_namespace
from docstokg_local.cli.documents import list_loaded
from docstokg_local.cli.folder_watch import changes
from tests.embedded_store import NS
from tests.unit.test_loading_pipeline import Store as FolderStore
from tests.unit.test_loading_pipeline import write


class Store(FolderStore):
    def records(self) -> dict[str, DocumentRecord]:
        return {r.doc_id: r for r in every_document(self.stores.register, NS)}

    def texts(self) -> set[str]:
        return {chunk.text for chunk, _ in self.stores.index_writer.stored_chunks(NS)}

    def fresh(self) -> "Store":
        return Store(self.path.with_name("fresh.sqlite"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def test_second_folder_does_not_replace_the_first(store: Store):
    first = store.folder("a", README="The A rocket is blue.")
    second = store.folder("b", README="The B rocket is red.")
    store.load(first)
    store.load(second)
    assert "--prefix NAME/" in store.rejects.first[0].reason
    assert store.texts() == {"The A rocket is blue."}
    store.load(second, prefix="b/")
    assert store.rejects.count == 0
    assert set(store.records()) == {"README.md", "b/README.md"}
    store.load(second, replace_docs=True)
    assert store.texts() == {"The B rocket is red."}


@pytest.mark.parametrize("owner_is_first", [True, False])
def test_owners_of_shared_ids_win_in_any_order(store: Store, owner_is_first: bool) -> None:
    owner = store.folder("a", README="The rocket is blue.")
    other = store.folder("b", README="The rocket is red.")
    store.load(owner)
    write(owner, README="The rocket is green.")
    report = store.load(*((owner, other) if owner_is_first else (other, owner)))
    assert store.texts() == {"The rocket is green."}
    assert [Path(reject.file).parent for reject in store.rejects.first] == [other]
    assert (report.types[".md"].rejected, report.types[".md"].chunks) == (1, 1)


def test_sync_ends_in_a_fresh_load(store: Store):
    home = store.folder("a", **{f"f{n}": f"File {n} about Zebra {n}." for n in range(12)})
    triples = [
        {"doc_id": f"f{n}.md", "subject": "Zebra", "relation": "is in", "object": f"File {n}"}
        for n in range(2)
    ]
    write(home, triples=triples)
    other = store.folder("o", kept="Not of this folder.")
    store.load(home, other)
    (home / "f1.md").unlink()
    (home / "f2.md").rename(home / "renamed.md")
    write(home, f3="Changed.", new="New here.")
    report = store.load(home, sync=True)
    assert (report.gone, report.kept_back) == (2, [])
    # What the file still says of a document that goes with this load has no evidence any more.
    assert [row.reason for row in store.rejects.first] == ["document 'f1.md' has no loaded chunk"]
    fresh = store.fresh()
    fresh.load(home, other)
    assert sorted(store.rows()) == sorted(fresh.rows())


@pytest.mark.parametrize("changed", [1, 3])
def test_moved_folder_is_known_by_its_content(store: Store, changed: int):
    texts = {f"f{n}": f"File {n} about Zebra {n}." for n in range(6)}
    store.load(store.folder("a", **texts))
    moved = store.folder("b", **dict(list(texts.items())[:5]), new="New here.")
    write(moved, **{f"f{n}": f"Other words {n}." for n in range(changed)})
    report = store.load(moved, sync=True)
    if changed == 3:  # more has changed than is the same: two folders of one layout
        assert (store.rejects.count, report.gone, store.rejects.notes) == (3, 0, [])
        return
    assert (store.rejects.count, report.gone, report.types[".md"].files) == (0, 1, 6)
    assert "4 of its 6 documents are unchanged" in store.rejects.notes[0]
    fresh = store.fresh()
    fresh.load(moved)
    assert sorted(row for row in store.rows() if not row.startswith("document")) == sorted(
        row for row in fresh.rows() if not row.startswith("document")
    )


def test_watch_ignores_writes_of_the_load(store: Store, tmp_path: Path):
    home = store.folder("a", x="Blue.")
    events = changes([tmp_path], store.wiring, home / "rejects.jsonl")
    next(events)
    store.load(home)
    (home / "rejects.jsonl").write_text("{}\n")
    write(home / ".git", hidden="Grey.")
    later = threading.Timer(3.0, lambda: write(home, x="Red."))
    begun = time.monotonic()
    later.start()
    next(events)
    assert 3.0 < time.monotonic() - begun < 30
    store.load(home)
    assert store.texts() == {"Red."}


def test_many_removals_need_consent(store: Store):
    home = store.folder("a", a="A.", b="B.", c="C.")
    store.load(home)
    (home / "a.md").unlink()
    consents: list[Sequence[str]] = []
    report = store.load(home, sync=True, agree=lambda doc_ids: bool(consents.append(doc_ids)))
    assert (consents, report.kept_back, len(store.texts())) == ([["a.md"]], ["a.md"], 3)
    store.load(home, sync=True, agree=lambda doc_ids: True)
    assert store.texts() == {"B.", "C."}


def test_unreadable_file_keeps_its_document(store: Store):
    home = store.folder("a", **{f"f{n}": f"File {n}." for n in range(9)})
    store.load(home)
    (home / "f1.md").write_bytes(b"\0\0")
    report = store.load(home, sync=True)
    assert (report.gone, "File 1." in store.texts(), store.rejects.count) == (0, True, 1)


def test_unlisted_folder_removes_nothing(store: Store):
    home = store.folder("a", **{f"f{n}": f"File {n}." for n in range(9)})
    write(home / "locked", x="X.")
    store.load(home)
    (home / "f1.md").unlink()
    too_deep(home / "locked")
    report = store.load(home, sync=True)
    assert (report.gone, len(report.warnings), len(store.texts())) == (0, 1, 10)
    (reject,) = store.rejects.first
    assert reject.file.startswith(str(home / "locked"))
    assert reject.reason == "cannot list the folder: File name too long"


def too_deep(path: Path) -> None:
    """Make folders whose path no system call takes: nobody lists them, whoever he is."""
    inside = os.open(path, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=inside)
        outside, inside = inside, os.open("d" * 250, os.O_RDONLY, dir_fd=inside)
        os.close(outside)
    os.close(inside)


def open_to_all() -> str:
    """Give a folder that whoever is not root reaches too: TMPDIR may lie below root's home."""
    for base in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):
        place = Path(base).resolve()
        if place.is_dir() and all(row.stat().st_mode & 1 for row in (place, *place.parents)):
            return base
    raise AssertionError("every folder for temporary files is closed to other users")


def test_forbidden_file_does_not_stop_others(store: Store):
    with tempfile.TemporaryDirectory(dir=open_to_all()) as name:
        home = write(Path(name), a="Blue.", b="Red.")
        (home / "chunks.jsonl").write_text("{}")
        (home / "terms.obo").write_text("[Term]")
        for path in home.iterdir():
            path.chmod(0o644 if path.name == "a.md" else 0)
        # The process that converts is started while its program may be read.
        list(rows_of(SourceFile(home / "a.md", "document", "a.md", home), store.stores.readers))
        with not_root(home):
            rejects = RejectLog()
            files = find_files([home], rejects)
            rows = {file.inner: list(rows_of(file, store.stores.readers)) for file in files}
            with pytest.raises(LoadError, match=r"b\.md cannot be read: Permission denied"):
                find_files([home / "b.md"], rejects)
    assert len(rows.pop("a.md")) == 2
    assert len(rows) == 3
    for inner, ((line, reject),) in rows.items():
        assert (line, str(reject)) == (1, "cannot be read: Permission denied"), inner


@contextmanager
def not_root(home: Path) -> Iterator[None]:
    """Be somebody whom permissions stop."""
    if os.geteuid() != 0:
        yield
        return
    for path in (home, *home.iterdir()):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_invalid_file_names_are_rejected(store: Store):
    home = store.folder("a", a="Blue.")
    for name in (b"caf\xe9.md", b"two\nlines.md", "café au lait.md".encode()):
        Path(os.fsdecode(os.fsencode(home) + b"/" + name)).write_text("Brown.")
    (home / "a\u202fspace of\u3000macOS.md").write_text("Brown.")
    os.mkfifo(home / "pipe.md")
    store.load(home)
    assert store.texts() == {"Blue.", "Brown."}
    assert sorted((os.fsencode(Path(r.file).name), r.reason) for r in store.rejects.first) == [
        (b"caf\xe9.md", "the file name is not UTF-8 or contains a control character"),
        (b"pipe.md", "not a regular file"),
        (b"two\nlines.md", "the file name is not UTF-8 or contains a control character"),
    ]
    (rejected,) = [str(row) for row in store.rejects.first if "lines" in row.file]
    assert "two\\nlines.md: the file name" in rejected


def test_links_to_folders_are_noted_but_not_followed(store: Store, tmp_path: Path):
    home = store.folder("a", a="Blue.")
    write(home / "inner", b="Red.")
    write(home / ".hidden", c="Grey.")
    store.folder("out", d="Black.")
    (home / "again").symlink_to(home / "inner")
    (home / "loop").symlink_to(home)
    (home / "leads out").symlink_to(tmp_path / "out")
    (home / "veiled").symlink_to(home / ".hidden")
    (home / "z.md").symlink_to(home / "a.md")
    report = store.load(home)
    assert store.texts() == {"Blue.", "Red."}
    assert {(Path(row.file).name, row.reason) for row in store.rejects.first} == {
        ("leads out", "link to a target outside the folder"),
        ("veiled", "link to a hidden folder"),
    }
    assert report.types["folders"].rejected == 2
    noted = {Path(note.partition(": ")[0]).name for note in store.rejects.notes}
    assert noted >= {"again", "loop", "z.md"}


def test_converted_text_is_removed_with_its_document(store: Store):
    home = store.folder("a")
    (home / "t.csv").write_text("name,age\nAnn,3\n")
    store.load(home)
    register = store.stores.register
    assert register.text(NS, "t.csv") == "name: Ann\nage: 3\n\n"
    (record,) = store.records().values()
    assert record.converter.startswith("charset-normalizer-")
    assert delete_document(store.stores, NS, "t.csv") == 1
    assert register.text(NS, "t.csv") is None
    assert store.records() == {}


def test_list_shows_documents_without_source_folders(store: Store, capsys):
    store.load(store.folder("secret-place", a="# Tea\n\nGreen.", b="---\n- x\n---\nBlack."))
    register = store.stores.register
    assert list_loaded(store.wiring, None, documents=True, entities=False, as_json=True)
    out = capsys.readouterr().out
    (listed,) = json.loads(out)["namespaces"]
    assert (listed["count"], listed["chunks"]) == (2, 2)
    assert [d["title"] for d in listed["documents"]] == ["Tea", ""]
    key = register.text(*key_of(NS))
    assert key is not None
    assert "secret-place" not in out and key not in out and store.records()["a.md"].root not in out
    assert list_loaded(store.wiring, None, documents=True, entities=False, as_json=False)
    out = capsys.readouterr().out
    assert "a.md  1 chunk " in out
    assert out.count("    note: front matter is not a mapping") == 1
    delete_namespace(store.stores, NS)
    assert register.text(*key_of(NS)) is None
    assert not list_loaded(store.wiring, None, documents=False, entities=False, as_json=False)
