"""Loads of a bucket read and encode changed objects alone, and an erasure takes what they kept."""

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts.records import FoundName
from docstokg.domain.deadline import Deadline
from docstokg.errors import LoadError
from docstokg.loading.read import chunking
from docstokg.loading.run import output_cache, unchanged
from docstokg.loading.run.output_cache import sweep_outputs
from docstokg.ports import Parts, Spans
from docstokg.wiring import Wiring
from tests.run_stages import Killed, listed, run_stages
from tests.unit.test_stages import NS, Capitals, Hashed, Place, Weighed, converter, folder_of

__all__ = ["converter"]
OBJECTS = 60


class Counts:
    """Texts per model, and the objects that were converted."""

    def __init__(self) -> None:
        self.dense: list[str] = []
        self.sparse: list[str] = []
        self.names: list[str] = []
        self.entities: list[str] = []

    def totals(self) -> tuple[int, int, int]:
        return len(self.dense), len(self.sparse), len(self.names)


class Counted:
    """A model that counts what it reads."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts


class CountedDense(Counted, Hashed):
    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        self._counts.entities += texts
        return super().embed(texts, deadline)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        self._counts.dense += texts
        rows = zip(Hashed().embed(texts, None), parts, strict=True)
        return tuple((vector, bytes(len(spans) * self.dimension // 2)) for vector, spans in rows)


class CountedSparse(Counted, Weighed):
    def encode(
        self, texts: Sequence[str], deadline: Deadline | None
    ) -> tuple[dict[str, float], ...]:
        self._counts.sparse += texts
        return super().encode(texts, deadline)


class CountedNames(Counted, Capitals):
    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        self._counts.names += texts
        return super().find(texts)


class Cloud(Place):
    """A place that counts what its models read since the last run began."""

    def wiring(self) -> Wiring:
        wiring = super().wiring()
        wiring.override("embedder", CountedDense(self.counts))
        wiring.override("sparse_encoder", CountedSparse(self.counts))
        wiring.override("names", CountedNames(self.counts))
        return wiring

    def run(self, run_id: str, **fields: Any) -> Counts:
        self.counts = Counts()
        fields = {"sync": True, "max_removed": OBJECTS, **fields}
        run_stages(self.stages(run_id, **fields), self.objects)
        return self.counts

    def fail(self, run_id: str) -> None:
        """End a run as the machine ends a failed one."""
        self.stages(run_id).call("close", failed=True, error={"Error": "LoadError", "Cause": "x"})

    def change(self, number: int, text: str) -> str:
        key = f"sources/{NS}/part{number % 4}/report{number:03}.md"
        body = self.objects.get(key)
        self.objects.put(key, body + text.encode())
        return key


def post(cloud: Cloud, run_id: str, texts: dict[str, str], replace: bool = False) -> Counts:
    """Load uploads in a run of their own; return how often each model ran."""
    fields = {"text": True, "acl": ["staff"], "metadata": {"year": 2026}}
    statement = {"documents": {doc_id: {**fields, "title": f"Memo {doc_id}"} for doc_id in texts}}
    for doc_id, text in texts.items():
        cloud.objects.put(f"inbox/{NS}/{run_id}/{doc_id}", text.encode())
    cloud.objects.put(f"posted/{NS}/{run_id}.json", json.dumps(statement).encode())
    return cloud.run(run_id, prefix=f"inbox/{NS}/{run_id}/", sync=False, replace=replace)


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """A bucket of documents, loaded once."""
    cloud = Cloud(tmp_path / "cloud")
    folder = tmp_path / "in"
    folder.mkdir()
    folder_of(folder, documents=OBJECTS)
    for name in ("chunks_a.jsonl", "passages_b.jsonl", "again.md", "poisoned.md", "picture.png"):
        (folder / name).unlink()
    cloud.upload(folder)
    cloud.run("first")
    return cloud


@pytest.fixture
def laptop(tmp_path: Path) -> Place:
    (tmp_path / "laptop").mkdir()
    return Place(tmp_path / "laptop")


def is_equal(cloud: Cloud, laptop: Place, tmp_path: Path) -> bool:
    """Load what is in the bucket now from a folder, and compare."""
    folder = tmp_path / "now"
    for item in listed(cloud.objects, f"sources/{NS}/"):
        path = folder / item["Key"].removeprefix(f"sources/{NS}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(cloud.objects.get(item["Key"]))
    laptop.load(folder)
    return cloud.digest() == laptop.digest()


def test_unchanged_objects_are_neither_read_nor_encoded(cloud: Cloud) -> None:
    before = cloud.digest()
    counts = cloud.run("second")
    assert counts.totals() == (0, 0, 0)
    assert counts.entities == []
    assert cloud.report("second")["unchanged"] == OBJECTS
    assert cloud.report("second")["loaded"] == OBJECTS
    assert cloud.digest() == before


def test_one_changed_object_costs_its_texts(cloud: Cloud, laptop: Place, tmp_path: Path) -> None:
    cloud.change(7, "\n## Later\n\nTrier repaired the pump of Essen in Bonn.\n")
    counts = cloud.run("second")
    assert counts.totals() == (1, 1, 1)
    assert cloud.report("second")["unchanged"] == OBJECTS - 1
    assert is_equal(cloud, laptop, tmp_path)


def test_new_and_deleted_objects_equal_a_full_load(
    cloud: Cloud, laptop: Place, tmp_path: Path
) -> None:
    cloud.objects.put(
        f"sources/{NS}/new.md", b"# Trier\n\nThe Institute of Pumps moved to Trier.\n"
    )
    cloud.objects.delete(f"sources/{NS}/part1/report005.md")
    counts = cloud.run("second")
    assert counts.totals() == (1, 1, 1)
    assert is_equal(cloud, laptop, tmp_path)


def test_repeated_killed_run_encodes_what_is_missing(cloud: Cloud) -> None:
    for number in range(20):
        cloud.change(number, f"\n## Later\n\nTrier repaired pump {number} in Bonn.\n")
    cloud.counts = Counts()
    stages = cloud.stages("killed", sync=True)
    sources = list(listed(cloud.objects, f"sources/{NS}/"))
    for batch in (sources[:30], sources[30:]):
        stages.call("read", batch)
    shards = list(listed(cloud.objects, "runs/killed/rows/"))
    stages.call("encode", shards[:1])
    stages.fuse.left = 3
    with pytest.raises(Killed):
        stages.call("encode", shards[1:])
    encoded = len(cloud.counts.dense)
    done = sum(entry.modified > 0 for entry in cloud.objects.list("runs/killed/vectors/"))
    assert done == 1
    counts = cloud.run("again")
    assert 0 < len(counts.dense) < 20
    assert encoded + len(counts.dense) >= 20
    assert len(counts.names) == 20


def test_other_chunk_size_encodes_new_texts(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    first = set(cloud.counts.dense)
    long = " ".join(f"Sentence {n} of a long report about pumps in Bonn." for n in range(40))
    cloud.change(7, f"\n## Long\n\n{long}\n")
    cloud.run("second")
    earlier = first | set(cloud.counts.dense)
    monkeypatch.setattr(chunking, "ENCODER_PIECES", 128)
    monkeypatch.setattr(unchanged, "code_digest", lambda: "cut shorter")
    counts = cloud.run("third")
    assert cloud.report("third")["unchanged"] == 0
    assert counts.dense
    assert not earlier & set(counts.dense)
    assert len(counts.dense) < 12


def test_another_model_encodes_everything(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountedNames, "model", "another recogniser")
    with pytest.raises(LoadError, match="run the load again"):
        cloud.run("second")
    cloud.fail("second")
    counts = cloud.run("third")
    assert counts.totals() == (0, 0, len(cloud.counts.names))
    assert len(counts.names) >= OBJECTS


def test_unfinished_load_makes_the_next_read_everything(cloud: Cloud) -> None:
    cloud.change(7, "\n## Later\n\nTrier repaired it.\n")
    stages = cloud.stages("killed", sync=True)
    for name in ("read", "encode", "names", "resolve"):
        stages.call(name)
    cloud.fail("killed")
    counts = cloud.run("again")
    assert cloud.report("again")["unchanged"] == 0
    assert counts.totals() == (0, 0, 0)


def test_new_file_with_unread_document_is_read_again(
    cloud: Cloud, laptop: Place, tmp_path: Path
) -> None:
    text = b"---\ndoc_id: part3/report007.md\n---\n\nTrier has other text.\n"
    cloud.objects.put(f"sources/{NS}/earlier.md", text)
    with pytest.raises(LoadError, match="run the load again"):
        cloud.run("second")
    cloud.fail("second")
    cloud.run("third")
    assert is_equal(cloud, laptop, tmp_path)
    cloud.run("fourth")
    assert cloud.report("fourth")["unchanged"] == OBJECTS - 1


def contents(cloud: Cloud) -> Iterator[tuple[str, str]]:
    for item in listed(cloud.objects, ""):
        body = cloud.objects.get(item["Key"])
        body = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
        yield item["Key"], body.decode("utf-8", "replace")


@pytest.mark.parametrize("erase", ["deleted object", "request"])
def test_erasure_leaves_no_words_or_vectors(
    cloud: Cloud, erase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = cloud.change(7, "\n## Secret\n\nZanzibar repaired the pump.\n")
    doc_id = key.removeprefix(f"sources/{NS}/")
    cloud.run("second")
    folder, _ = output_cache._folders(NS, doc_id)
    assert [k for k, _ in contents(cloud) if k.startswith(folder)]
    assert [k for k, text in contents(cloud) if "Zanzibar" in text and k != key]
    cloud.objects.delete(key)
    if erase == "request":
        cloud.run("third", prefix=f"inbox/{NS}/third/", sync=False, remove=[doc_id])
    else:
        cloud.run("third")
    assert not [k for k, text in contents(cloud) if "Zanzibar" in text]
    assert not [k for k, _ in contents(cloud) if k.startswith(folder)]
    assert cloud.run("fourth").totals() == (0, 0, 0)


def test_outputs_of_unknown_sources_last_two_days(cloud: Cloud) -> None:
    prefix = f"encodings/{NS}/"
    stored = [item["Key"] for item in listed(cloud.objects, prefix)]
    assert len(stored) == 2 * OBJECTS
    paths = [f"part{n % 4}/report{n:03}.md" for n in range(1, OBJECTS)]
    newest = max(entry.modified for entry in cloud.objects.list(prefix))
    sweep_outputs(cloud.objects, NS, paths, newest + 86_400)
    assert len(list(listed(cloud.objects, prefix))) == len(stored)
    sweep_outputs(cloud.objects, NS, paths, newest + 3 * 86_400)
    assert len(list(listed(cloud.objects, prefix))) == len(stored) - 2


@pytest.mark.parametrize("damage", [lambda body: body[:40], lambda body: b"", lambda body: b"{}"])
def test_damaged_output_is_computed_again(cloud: Cloud, damage: Callable[[bytes], bytes]) -> None:
    cloud.change(7, "\n## Later\n\nTrier repaired the pump.\n")
    for item in listed(cloud.objects, output_cache._folders(NS, "part3/report007.md")[0]):
        cloud.objects.put(item["Key"], damage(cloud.objects.get(item["Key"])))
    dense, sparse, names = cloud.run("second").totals()
    assert dense == sparse == names > 1


def test_reposted_document_is_not_encoded_again(cloud: Cloud) -> None:
    memo = {"memo.md": "The pump of Trier stopped.\n"}
    assert post(cloud, "post1", memo).totals() == (1, 1, 1)
    assert post(cloud, "post2", memo, replace=True).totals() == (0, 0, 0)
    assert cloud.run("after").totals() == (0, 0, 0)
    assert cloud.report("after")["unchanged"] == OBJECTS
