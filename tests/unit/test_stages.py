"""A run's stages end in the content of one load, however they are ended, repeated or shuffled."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.contracts.records import FoundName
from docstokg.domain.deadline import Deadline
from docstokg.domain.text.names import capitalised_names
from docstokg.domain.vectors import pack
from docstokg.errors import LoadError, Locked
from docstokg.loading.context import LoadOptions, LoadReport
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.resolve.affected import UNREAD
from docstokg.loading.run import rows as run_rows
from docstokg.loading.transfer.contents import digests
from docstokg.ports import ObjectStore, Parts, Spans
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.changing_folder import ChangingFolder
from tests.embedded_store import settings_at
from tests.run_stages import Stages, listed, run_stages

NS = "default"
RUN = "01JDRUN"


class Hashed:
    """An embedder by hash: deterministic, and nothing else is asked of it here."""

    model, dimension = "hashed", 8

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        return tuple(
            pack([byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[:8]])
            for text in texts
        )

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        rows = zip(self.embed(texts, None), parts, strict=True)
        return tuple((vector, bytes(len(spans) * self.dimension // 2)) for vector, spans in rows)


class Weighed:
    """A sparse encoder: each word weighs its length."""

    model = "lengths"

    def encode(
        self, texts: Sequence[str], deadline: Deadline | None
    ) -> tuple[dict[str, float], ...]:
        return tuple({word: float(len(word)) for word in text.split()} for text in texts)


NAMED = "capitals of a test"


class Capitals:
    """A recogniser of its own name."""

    model = NAMED

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        return tuple(
            tuple(FoundName(name, "Thing") for name in dict.fromkeys(capitalised_names(text)))
            for text in texts
        )


class Kept(ChildConverter):
    """Converts for many processes of a test, as starting a converter takes longer than its work."""

    def close(self) -> None:
        """Stay for the next one."""

    end = ChildConverter.close


@pytest.fixture(scope="module", autouse=True)
def converter() -> Iterator[None]:
    yield
    CONVERTER.end()


CONVERTER = Kept()


class Place:
    """A bucket and a store in a folder, or where settings say, and the wiring of one process."""

    def __init__(self, folder: Path, settings: Settings | None = None, ns: str = NS) -> None:
        self.ns = ns
        store, bucket = folder / "store.sqlite", f"file://{folder / 'bucket'}"
        self.settings = settings or settings_at(store, ingest_url=bucket)
        self.objects: ObjectStore = Wiring(self.settings).object_store()

    def wiring(self) -> Wiring:
        ports = {"embedder": Hashed(), "sparse_encoder": Weighed(), "names": Capitals()}
        return Wiring(self.settings, ports={**ports, "converter": CONVERTER})

    def upload(self, folder: Path) -> None:
        for key in [item["Key"] for item in listed(self.objects, f"sources/{self.ns}/")]:
            self.objects.delete(key)
        for path in folder.rglob("*"):
            if path.is_file():
                key = f"sources/{self.ns}/{path.relative_to(folder).as_posix()}"
                self.objects.put(key, path.read_bytes())

    def stages(self, run_id: str = RUN, **fields: Any) -> Stages:
        run = {"run_id": run_id, "namespace": self.ns, "bucket": "b"}
        return Stages(self.wiring, {**run, "prefix": f"sources/{self.ns}/", **fields})

    def load(self, folder: Path, **options: Any) -> LoadReport:
        with closing(self.wiring()) as wiring:
            return load([folder], LoadOptions(self.ns, **options), stores_of(wiring), RejectLog())

    def digest(self) -> tuple[str, str, str]:
        with closing(self.wiring()) as wiring:
            stores = wiring.index_writer(), wiring.graph_writer(), wiring.register()
            return digests(*stores, [self.ns])

    def report(self, run_id: str = RUN) -> dict[str, Any]:
        return dict(json.loads(self.objects.get(f"runs/{run_id}/report.json")))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "cloud")


@pytest.fixture
def laptop(tmp_path: Path) -> Place:
    (tmp_path / "laptop").mkdir()
    return Place(tmp_path / "laptop")


CITIES = ("Bonn", "Cologne", "Aachen", "Essen", "Trier")


def document(number: int) -> str:
    city, other = CITIES[number % 5], CITIES[(number + 1) % 5]
    return (
        f"# Report {number}\n\nThe University of {city} (UoX{number % 4}) works with {other} on "
        f"pump {number}. It was founded in {1800 + number}.\n\n## Method\n\nWater from {other} "
        f"was measured by the Institute of Pumps. UoX{number % 4} agrees.\n\n"
        f"## Results {number % 3}\n\nThe pump of {city} ran for {number} hours.\n"
    )


def folder_of(path: Path, documents: int = 24) -> Path:
    """Documents of four kinds, with an ontology, triples, relations, and one that is poisoned."""
    for number in range(documents):
        (path / f"part{number % 4}").mkdir(parents=True, exist_ok=True)
        (path / f"part{number % 4}" / f"report{number:03}.md").write_text(document(number))
    (path / ".hidden.md").write_text("# Hidden\n")
    (path / "questions.jsonl").write_text('{"id": "q"}\n')
    (path / "picture.png").write_bytes(b"\x89PNG")
    (path / "poisoned.md").write_bytes(b"# Poison\n\nwith a NUL \0 in it\n")
    (path / "again.md").write_text("---\ndoc_id: part0/report000.md\n---\n\nOther text.\n")
    text = "Dravet syndrome (DS) number {} shows seizures in Bonn."
    chunks = [
        {"id": f"c{n}", "doc_id": f"d{n % 3}", "title": f"Paper {n % 3}", "text": text.format(n)}
        for n in range(9)
    ]
    fits = {"entity": "HP:0001250", "start": 0, "end": 4}
    chunks.append({"id": "m", "doc_id": "d1", "text": "Fits hurt.", "mentions": [fits]})
    lines(path / "chunks_a.jsonl", chunks[:5])
    lines(path / "passages_b.jsonl", [*chunks[5:], {"id": "c0", "doc_id": "d9", "text": "else"}])
    entities = [
        {"id": "HP:0001250", "name": "Seizure", "synonyms": ["Fit", "seizures"]},
        {"id": "MONDO:1", "name": "Dravet syndrome"},
    ]
    lines(path / "entities.jsonl", entities)
    ends = {"source": "MONDO:1", "type": "has", "target": "HP:0001250"}
    places = {"chunk_id": "c3", "start": 0, "end": 15}, {"chunk_id": "gone"}
    lines(path / "relations.jsonl", [{**ends, "evidence": place} for place in places])
    triple = {"subject": "Cologne", "relation": "has", "object": "pump"}
    lines(path / "triples.jsonl", [{"doc_id": "part1/report001.md", **triple}])
    return path


def lines(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_stages_end_in_the_content_of_one_load(place: Place, laptop: Place, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in")
    report = laptop.load(folder)
    place.upload(folder)
    assert run_stages(place.stages(), place.objects) == 0
    assert place.digest() == laptop.digest()
    run_report = place.report()
    reasons = {row["doc_id"]: row["reason"] for row in run_report["rejected"]}
    assert reasons["poisoned.md"] == "NUL character in line 3"
    assert run_report["notes"] == ["picture.png: no reader for .png, not read"]
    assert {"part0/report000.md", "passages_b.jsonl"} & reasons.keys() or "again.md" in reasons
    assert ".hidden.md" not in reasons and "questions.jsonl" not in reasons
    assert run_report["rejected_count"] == report.rejected
    assert run_report["chunks"] == report.chunks


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_shuffled_repeated_stages_end_equal(
    place: Place, laptop: Place, tmp_path: Path, seed: int
) -> None:
    folder = folder_of(tmp_path / "in", documents=60)
    laptop.load(folder)
    place.upload(folder)
    order = random.Random(seed)
    stages = place.stages()
    assert run_stages(stages, place.objects, kills=3, twice=True, order=order, batch=5) == 3
    assert place.digest() == laptop.digest()
    assert run_stages(stages, place.objects) == 3
    assert place.digest() == laptop.digest()


def each_shard(stages: Stages, place: Place, *names: str) -> None:
    shards = list(listed(place.objects, f"runs/{stages.run['run_id']}/rows/"))
    for name in names:
        for item in shards:
            stages.call(name, [item])


def computed(stages: Stages, place: Place) -> None:
    """Run the stages that need no lease."""
    stages.call("read", list(listed(place.objects, f"sources/{place.ns}/")))
    each_shard(stages, place, "encode", "names")


def finish(stages: Stages, place: Place) -> None:
    """Run the stages after `names`."""
    stages.call("resolve")
    each_shard(stages, place, "write")
    stages.call("close")


def changed(folder: Path) -> None:
    (folder / "part0" / "report004.md").write_text(document(104))
    (folder / "part1" / "report005.md").rename(folder / "part1" / "renamed.md")
    (folder / "part2" / "report006.md").unlink()
    (folder / "new.md").write_text("# Trier\n\nThe Institute of Pumps moved to Trier.\n")


@pytest.mark.parametrize("kills", [0, 3])
def test_sync_removes_deleted_objects(
    place: Place, laptop: Place, tmp_path: Path, kills: int
) -> None:
    folder = folder_of(tmp_path / "in")
    laptop.load(folder)
    place.upload(folder)
    run_stages(place.stages("first"), place.objects)
    changed(folder)
    laptop.load(folder, sync=True)
    place.upload(folder)
    order = random.Random(kills)
    run_stages(place.stages(sync=True), place.objects, kills=kills, order=order)
    assert place.report()["removed"] == 2
    assert place.digest() == laptop.digest()


@pytest.mark.parametrize("kills", [0, 3])
def test_sync_removes_names_of_deleted_texts(
    place: Place, laptop: Place, tmp_path: Path, kills: int
) -> None:
    chance = random.Random(kills)
    folder = ChangingFolder(tmp_path / "in", chance)
    for _ in range(12):
        folder.add()
    place.upload(folder.root)
    run_stages(place.stages("first"), place.objects)
    for _ in range(3):
        folder.work()
    place.upload(folder.root)
    stages = place.stages(sync=True, max_removed=12)
    run_stages(stages, place.objects, kills=kills, order=chance)
    laptop.load(folder.root)
    assert place.digest() == laptop.digest()


@pytest.mark.parametrize("stored", [True, False])
def test_missing_recogniser_uses_stored_names_or_warns(
    place: Place, laptop: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    folder = folder_of(tmp_path / "in", documents=8)
    place.upload(folder)
    run_stages(place.stages("first"), place.objects)
    if not stored:
        graph = place.wiring().graph_writer()
        graph.put_names(NS, {uuid: "" for uuid, _ in graph.names(NS)})
    changed(folder)
    laptop.load(folder)
    place.upload(folder)
    stages = place.stages(sync=True, max_removed=9)
    call = stages.call

    def without(stage: str, *args: Any, **fields: Any) -> dict[str, Any]:
        monkeypatch.setattr(
            Capitals, "model", f"another in {stage}" if stage == "resolve" else NAMED
        )
        return call(stage, *args, **fields)

    monkeypatch.setattr(stages, "call", without)
    run_stages(stages, place.objects)
    report = place.report()
    assert "reason" not in report
    assert (UNREAD in report["warnings"]) != stored
    assert not stored or place.digest() == laptop.digest()


def test_removals_over_the_limit_are_kept_back(place: Place, laptop: Place, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in", documents=12)
    laptop.load(folder)
    place.upload(folder)
    run_stages(place.stages("first"), place.objects)
    whole = place.digest()
    for number in range(6):
        (folder / f"part{number % 4}" / f"report{number:03}.md").unlink()
    place.upload(folder)
    run_stages(place.stages("second", sync=True, max_removed=4), place.objects)
    assert len(place.report("second")["kept_back"]) == 5  # `again.md` has the sixth one's id now
    laptop.load(folder, sync=True)
    assert place.digest() == laptop.digest() == whole
    run_stages(place.stages("third", sync=True, max_removed=5), place.objects)
    laptop.load(folder, sync=True, agree=lambda doc_ids: True)
    assert place.digest() == laptop.digest() != whole


def test_unreadable_document_is_not_removed(place: Place, tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "in", documents=12)
    place.upload(folder)
    run_stages(place.stages("first"), place.objects)
    before = place.digest()
    place.objects.put(f"sources/{NS}/part3/report003.md", b"# Report 3\n\nThis crashes.\n")
    stages = place.stages(sync=True)
    sources = list(listed(place.objects, f"sources/{NS}/"))
    lost = next(item for item in sources if item["Key"].endswith("report003.md"))
    stages.call("read", [item for item in sources if item is not lost])
    stages.call("read", [lost], crashed={"Error": "Runtime.ExitError", "Cause": "killed"})
    each_shard(stages, place, "encode", "names")
    finish(stages, place)
    reasons = {row["doc_id"]: row["reason"] for row in place.report()["rejected"]}
    assert reasons["part3/report003.md"] == "reading failed with Runtime.ExitError"
    assert place.digest() == before


def test_object_spans_several_shards(
    place: Place, laptop: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_rows, "SHARD_BYTES", 1500)
    folder = folder_of(tmp_path / "in", documents=8)
    laptop.load(folder)
    place.upload(folder)
    stages = place.stages()
    stages.call("read", list(listed(place.objects, f"sources/{NS}/")))
    assert sum(1 for _ in listed(place.objects, f"runs/{RUN}/rows/")) > 8
    run_stages(stages, place.objects, batch=100)
    assert place.digest() == laptop.digest()


def test_runs_over_the_limit_are_refused(tmp_path: Path) -> None:
    source, places = folder_of(tmp_path / "in", documents=4), {}
    for ns in ("a", "b", "c"):
        place = places[ns] = Place(tmp_path / "cloud", ns=ns)
        place.settings = place.settings.model_copy(update={"load_concurrency": 2})
        place.upload(source)
        computed(place.stages(ns), place)
    places["a"].stages("a").call("resolve")
    places["b"].stages("b").call("resolve")
    for _ in range(2):  # a held lease is not counted against its own run
        with pytest.raises(Locked, match="2 loads are running"):
            places["c"].stages("c").call("resolve")
        places["b"].stages("b").call("resolve")
    failed = {"error": {"Error": "Timeout", "Cause": "late"}}
    places["a"].stages("a").call("close", failed=True, **failed)
    places["c"].stages("c").call("resolve")


def test_second_run_of_a_namespace_is_locked(place: Place, tmp_path: Path) -> None:
    place.upload(folder_of(tmp_path / "in", documents=4))
    first, second = place.stages("first"), place.stages("second")
    for stages in (first, second):
        computed(stages, place)
    first.call("resolve")
    with pytest.raises(Locked, match="run first is still loading"):
        second.call("resolve")
    first.call("close", failed=True, error={"Error": "States.Timeout", "Cause": "late"})
    assert place.report("first")["reason"] == "States.Timeout: late"
    second.call("resolve")
    with pytest.raises(LoadError, match="another load started or ended"):
        place.objects.delete(f"runs/leases/{NS}.json")
        first.call("close")
