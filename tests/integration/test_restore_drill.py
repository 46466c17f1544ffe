"""OpenSearch and Neo4j are lost, and a namespace is restored from its bucket alone."""

import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from docstokg.contracts.records import Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.deadline import Deadline
from docstokg.ports import LoadRun
from docstokg_local.cli import entities, index_jobs
from docstokg_local.loading.stores import stores_of
from tests.contract.real import both_stores, empty
from tests.run_stages import run_stages
from tests.services import SERVICES
from tests.unit.test_stages import NS, converter, document
from tests.unit.test_unchanged_objects import Cloud, Counts, post

__all__ = ["converter"]
DOCUMENTS = int(os.environ.get("DOCSTOKG_TEST_DOCUMENTS", "40"))
"""Documents of the namespace; docs/operations.md has the time of a larger one."""
pytestmark = [*SERVICES, pytest.mark.timeout(max(1200, DOCUMENTS * 3))]
ERASED = {
    "part0/report000.md": "an object of sources/ that is still there",
    "part1/report001.md": "an object that its owner deleted",
    "listed": "a document of a list that is still there",
    "memo0.md": "an upload",
    "part2/report002.md": "an object, then an upload in its place",
}
"""Erased documents, and where they came from."""
SECRETS = [f"Xylo{word}" for word in ("phone", "graph", "meter", "tone", "lith")]
"""A name in each erased document."""


class InProcess:
    """Runs each load before `start` returns."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud, self._states = cloud, dict[str, LoadRun]()

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        run_stages(self._cloud.stages(**dict(arguments)), self._cloud.objects, batch=100)
        self._states[name] = LoadRun(arguments, True, False)

    def find(self, name: str) -> LoadRun | None:
        return self._states.get(name)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    url = f"file://{tmp_path / 'bucket'}"
    with both_stores(ingest_url=url) as settings:
        cloud = Cloud(tmp_path, settings)
        cloud.counts = Counts()
        yield cloud


def put_source(cloud: Cloud, path: str, text: str) -> None:
    cloud.objects.put(f"sources/{NS}/{path}", text.encode())


def erase(cloud: Cloud, run_id: str, doc_id: str) -> None:
    cloud.run(run_id, prefix=f"inbox/{NS}/{run_id}/", sync=False, remove=[doc_id])


def fill(cloud: Cloud) -> None:
    """Load documents and lists, uploads, replacements, five erasures, a merge and a split."""
    secret = dict(zip(ERASED, SECRETS, strict=True))
    for number in range(DOCUMENTS):
        path = f"part{number % 4}/report{number:03}.md"
        word = f"\n{secret[path]} repaired it.\n" if path in secret else ""
        put_source(cloud, path, document(number) + word)
    rows = [
        {"id": "c1", "doc_id": "listed", "text": f"{secret['listed']} is a pump."},
        {"id": "c2", "doc_id": "other", "text": "Bonn has the Pump of Kings."},
    ]
    put_source(cloud, "chunks.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    cloud.run("first")
    chance = random.Random(4)
    for job in range(4):
        memos = {f"memo{n}.md": f"Dura Works sent memo {n}.\n" for n in range(job, 12, 4)}
        if job == 0:
            memos["memo0.md"] += f"{secret['memo0.md']} repaired it.\n"
        post(cloud, f"post{job}", memos, replace=True)
    number = chance.randrange(3, 12)
    post(cloud, "post4", {f"memo{number}.md": "Dura Works replaced this memo.\n"}, replace=True)
    post(
        cloud,
        "post5",
        {"part2/report002.md": f"Upload. {secret['part2/report002.md']} left.\n"},
        replace=True,
    )
    wiring = cloud.wiring()
    for names, same in ((("Cologne", "Dura Works"), True), (("Bonn", "Trier"), False)):
        entities.decide(stores_of(wiring), NS, names, same, cloud.objects)
    wiring.close()
    for at, doc_id in enumerate(ERASED):
        erase(cloud, f"erase{at}", doc_id)
    cloud.objects.delete(f"sources/{NS}/part1/report001.md")
    put_source(cloud, "part3/report003.md", document(3) + "\nEssen repaired it later.\n")
    cloud.run("last")


def hits(cloud: Cloud, word: str) -> list[str]:
    wiring = cloud.wiring()
    try:
        queries = [ChannelQuery(channel="bm25", size=5, text=word)]
        scope = Scope(namespace=NS)
        (result,) = wiring.search_index().search(queries, scope, Deadline.after(30))
        texts = wiring.search_index().get([h.uuid for h in result.hits], scope, Deadline.after(30))
        return [chunk.text for chunk in texts.chunks.values() if word in chunk.text]
    finally:
        wiring.close()


def clocks() -> tuple[float, float]:
    """Return seconds of the wall clock and of this process."""
    return time.monotonic(), time.process_time()


def test_restored_namespace_has_the_same_content(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = clocks()
    fill(cloud)
    loaded = clocks()
    before = cloud.digest()
    for word in SECRETS:
        assert hits(cloud, word) == []
    assert hits(cloud, "Essen")
    empty(cloud.settings)
    cloud.counts = Counts()
    wiring = cloud.wiring()
    wiring.override("load_runs", InProcess(cloud))
    monkeypatch.setattr(index_jobs, "_wiring", lambda: wiring)
    lost = clocks()
    index_jobs.rebuild(NS)
    wiring.close()
    restored = clocks()
    for done, begin, end in (("loaded", begun, loaded), ("restored", lost, restored)):
        wall_s, cpu_s = end[0] - begin[0], end[1] - begin[1]
        print(f"{DOCUMENTS} documents {done} in {wall_s:.0f} s, {cpu_s:.0f} s of this CPU")
    assert cloud.digest() == before
    assert cloud.counts.totals() == (0, 0, 0)
    for word in SECRETS:
        assert hits(cloud, word) == []
    assert hits(cloud, "Essen")
