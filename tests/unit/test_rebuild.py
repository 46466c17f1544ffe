"""A namespace whose stores are lost is loaded again from its bucket alone."""

import json
import zipfile
from pathlib import Path

import pytest

from docstokg.loading.run.restoring import (
    copied_decisions,
    put_decisions,
    restore_runs,
    unrestorable,
)
from docstokg.loading.transfer.exporting import export
from docstokg.settings import Settings
from docstokg_local.cli.entities import decide
from docstokg_local.loading.stores import stores_of
from tests.embedded_store import settings_at
from tests.run_stages import run_stages
from tests.unit.test_stages import NS, converter
from tests.unit.test_unchanged_objects import OBJECTS, Cloud, Counts, cloud, post

__all__ = ["cloud", "converter"]


class Lost(Cloud):
    """Empty stores beside the bucket of another place."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        folder.mkdir()
        super().__init__(folder, settings)
        self.counts = Counts()

    def rebuild(self) -> None:
        for run in restore_runs(NS, "rebuild-1", self.objects):
            run_stages(
                self.stages(run.run_id, prefix=run.prefix, replace=run.replace), self.objects
            )


def lost_stores(cloud: Cloud, tmp_path: Path) -> Lost:
    store = tmp_path / "lost" / "store.sqlite"
    return Lost(tmp_path / "lost", settings_at(store, ingest_url=cloud.settings.ingest_url))


@pytest.fixture
def lost(cloud: Cloud, tmp_path: Path) -> Lost:
    return lost_stores(cloud, tmp_path)


def stored_ids(place: Cloud) -> list[str]:
    return [record.doc_id for record in place.wiring().register().documents(NS)]


def test_rebuilt_namespace_has_the_same_content(cloud: Cloud, lost: Lost) -> None:
    post(cloud, "post1", {"memo.md": "The pump of Trier stopped.\n", "gone.md": "Zanzibar left.\n"})
    post(cloud, "post2", {"memo.md": "The pump of Trier runs again.\n"}, replace=True)
    post(cloud, "post3", {"part3/report007.md": "Essen replaced the report.\n"}, replace=True)
    cloud.run("erase", prefix=f"inbox/{NS}/erase/", sync=False, remove=["gone.md"])
    cloud.objects.delete(f"sources/{NS}/part1/report005.md")
    cloud.run("after")
    lost.rebuild()
    assert lost.digest() == cloud.digest()
    stored = stored_ids(lost)
    assert not {"gone.md", "part1/report005.md"} & {*stored}
    assert len(stored) >= OBJECTS
    assert lost.counts.totals() == (0, 0, 0)


def test_erased_document_stays_erased_while_its_object_remains(cloud: Cloud, lost: Lost) -> None:
    """A changed object is another document, and other documents of a list remain."""
    rows = [{"id": f"c{n}", "doc_id": f"listed{n}", "text": f"Pump {n} runs."} for n in (1, 2)]
    key = f"sources/{NS}/chunks.jsonl"
    cloud.objects.put(key, "".join(json.dumps(row) + "\n" for row in rows).encode())
    cloud.run("listed")
    post(cloud, "post1", {"part3/report007.md": "Essen replaced the report.\n"}, replace=True)
    erased = ("part1/report005.md", "part3/report007.md", "listed1")
    for number, doc_id in enumerate(erased):
        run_id = f"erase{number}"
        cloud.run(run_id, prefix=f"inbox/{NS}/{run_id}/", sync=False, remove=[doc_id])
    cloud.run("after")
    notes = cloud.report("after")["notes"]
    assert [note for note in notes if note.startswith("part1/report005.md: erased by a request")]
    rejected = [row["doc_id"] for row in cloud.report("after")["rejected"]]
    assert rejected == ["relations.jsonl"]
    lost.rebuild()
    for place in (cloud, lost):
        stored = stored_ids(place)
        assert not {*erased} & {*stored}
        assert "listed2" in stored
    assert lost.digest() == cloud.digest()
    cloud.change(5, "\n## Later\n\nTrier has a new report.\n")
    cloud.run("changed")
    assert "part1/report005.md" in stored_ids(cloud)


def test_decisions_about_names_are_restored(cloud: Cloud, lost: Lost) -> None:
    for same in (True, False):
        stores = stores_of(cloud.wiring())
        decide(stores, NS, ("Cologne", "Trier"), same, cloud.objects)
    decide(stores_of(cloud.wiring()), NS, ("Bonn", "Essen"), True, cloud.objects)
    lost.rebuild()
    assert lost.digest() != cloud.digest()
    put_decisions(NS, stores_of(lost.wiring()), copied_decisions(NS, lost.objects))
    assert lost.digest() == cloud.digest()


def test_interrupted_rebuild_is_begun_again(cloud: Cloud, lost: Lost) -> None:
    post(cloud, "post1", {"memo.md": "The pump of Trier stopped.\n"})
    runs = restore_runs(NS, "rebuild-0", lost.objects)
    run = next(runs)
    run_stages(lost.stages(run.run_id, prefix=run.prefix, replace=True), lost.objects)
    run = next(runs)
    lost.stages(run.run_id, prefix=run.prefix).call("read")
    lost.rebuild()
    assert lost.digest() == cloud.digest()


def lacking(place: Cloud) -> int:
    wiring = place.wiring()
    try:
        return unrestorable(NS, wiring.register(), place.objects)
    finally:
        wiring.close()


def loaded_elsewhere(place: Cloud, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"file{number}.md").write_text(f"# File {number}\n\nTrier has pump {number}.\n")
    place.load(folder)


def test_documents_without_an_object_are_counted(cloud: Cloud, tmp_path: Path) -> None:
    post(cloud, "post1", {"memo.md": "The pump of Trier stopped.\n"})
    assert lacking(cloud) == 0
    loaded_elsewhere(cloud, tmp_path)
    assert lacking(cloud) == 2
    cloud.objects.delete(f"inbox/{NS}/post1/memo.md")
    assert lacking(cloud) == 3


def test_unpacked_export_restores_a_namespace_loaded_elsewhere(tmp_path: Path) -> None:
    """The remedy that `docstokg doctor` gives."""
    (tmp_path / "laptop").mkdir()
    laptop = Cloud(tmp_path / "laptop")
    laptop.counts = Counts()
    loaded_elsewhere(laptop, tmp_path)
    assert lacking(laptop) == 2
    export(stores_of(laptop.wiring()), NS, tmp_path / "export.zip")
    with zipfile.ZipFile(tmp_path / "export.zip") as file:
        for name in ("chunks.jsonl", "entities.jsonl", "relations.jsonl"):
            laptop.objects.put(f"sources/{NS}/{name}", file.read(name))
    laptop.run("first")
    assert laptop.report("first")["rejected"] == []
    assert lacking(laptop) == 0
    lost = lost_stores(laptop, tmp_path)
    lost.rebuild()
    assert lost.digest() == laptop.digest()
