"""Search times on the real stores as a corpus grows, with the graph and without it.

usage: python -m benchmarks.growth FOLDER [--sizes 100000,300000] [--requests 50] [--report FILE]

Starts OpenSearch (one shard) and Neo4j, loads the set FOLDER, and adds copies of it: the same
texts, vectors with noise (cosine about .9), and entities of their own. At each size every question
is asked with the graph and without it, in turn, after ten that are not counted. Per question:
OpenSearch's own `took` (summed over its requests), wall time, and processor time of this process
and of each server. A question whose answer is degraded, as when the graph is late, is asked again
and counted under `repeated`. Quality is not measured, as a copy of a right passage is as right.
"""

import argparse
import statistics
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.load import cpu_s
from benchmarks.load_stores import Real, real_stores
from benchmarks.peers.common import rows
from docstokg.adapters.opensearch.server import Server
from docstokg.contracts import Json
from docstokg.contracts.records import ChunkNode, ChunkRecord, EntityRecord, MentionRecord
from docstokg.domain.vectors import pack, unpack
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.question import submit
from docstokg_local.engine.workflow import LocalWorkflow

NAMESPACE = "default"
NOISE = 0.025
"""Standard deviation of the noise on each of 384 components of a unit vector."""
BATCH = 500
WARM_UP = 10
HEAP_MB = 2048
TRIES = 20


class Base:
    """The loaded set, and its copies."""

    def __init__(self, wiring: Wiring) -> None:
        self._index, self._graph = wiring.index_writer(), wiring.graph_writer()
        self._chunks = list(self._index.stored_chunks(NAMESPACE))
        self._nodes = list(self._graph.stored_nodes(NAMESPACE))
        self._entities = list(self._graph.stored_entities(NAMESPACE))
        self._mentions: dict[str, list[MentionRecord]] = {}
        for mention in self._graph.stored_mentions(NAMESPACE):
            self._mentions.setdefault(mention.uuid, []).append(mention)
        self._noise = np.random.default_rng(7)
        self.copies = 1

    @property
    def chunks(self) -> int:
        """Return the number of stored chunks."""
        return len(self._chunks) * self.copies

    def grow(self, chunks: int) -> None:
        """Add copies until there are at least so many chunks."""
        while self.chunks < chunks:
            suffix = f"#{self.copies}"
            for chunks_with_marks in batched(self._chunks, BATCH):
                self._index.put(
                    [(self._copy(chunk, suffix), mark) for chunk, mark in chunks_with_marks]
                )
            for nodes in batched(self._nodes, BATCH):
                self._graph.put_chunks([_node(node, suffix) for node in nodes])
            for entities in batched(self._entities, BATCH):
                self._graph.put_entities([_entity(entity, suffix) for entity in entities])
            for uuids in batched(self._mentions, BATCH):
                mentions = {
                    _uuid(name, suffix): [
                        _mention(mention, suffix) for mention in self._mentions[name]
                    ]
                    for name in uuids
                }
                self._graph.put_mentions(NAMESPACE, mentions)
            self.copies += 1
        self._index.close_load(NAMESPACE)
        self._graph.close_load(NAMESPACE)

    def _copy(self, chunk: ChunkRecord, suffix: str) -> ChunkRecord:
        assert chunk.vector is not None
        vector = unpack(chunk.vector)
        noise = self._noise.normal(0, NOISE, vector.shape).astype(np.float32)
        changes = {
            "uuid": _uuid(chunk.uuid, suffix),
            "chunk_id": chunk.chunk_id + suffix,
            "doc_id": chunk.doc_id + suffix,
            "vector": pack(vector + noise),
        }
        return chunk.model_copy(update=changes)


def _uuid(name: str, suffix: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name + suffix))


def _node(node: ChunkNode, suffix: str) -> ChunkNode:
    changes = {
        "uuid": _uuid(node.uuid, suffix),
        "chunk_id": node.chunk_id + suffix,
        "doc_id": node.doc_id + suffix,
    }
    return node.model_copy(update=changes)


def _entity(entity: EntityRecord, suffix: str) -> EntityRecord:
    synonyms = tuple(name + suffix for name in entity.synonyms)
    changes = {"id": entity.id + suffix, "name": entity.name + suffix, "synonyms": synonyms}
    return entity.model_copy(update=changes)


def _mention(mention: MentionRecord, suffix: str) -> MentionRecord:
    changes = {"uuid": _uuid(mention.uuid, suffix), "entity": mention.entity + suffix}
    return mention.model_copy(update=changes)


@dataclass
class Times:
    """Milliseconds per question; `repeated`: degraded answers, which are not in them."""

    took: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    servers: list[list[float]] = field(default_factory=list)
    repeated: int = 0

    def cells(self, first: "Times") -> Iterator[str]:
        """Yield medians, each with its ratio to those of the first size; CPU as means."""
        for name in ("took", "wall"):
            now, before = (statistics.median(getattr(times, name)) for times in (self, first))
            yield f"{now:.0f} ({now / before:.2f})"
        yield f"{statistics.quantiles(self.wall, n=20)[-1]:.0f}"
        yield f"{statistics.fmean(self.ours):.0f}"
        for now, before in zip(
            zip(*self.servers, strict=True), zip(*first.servers, strict=True), strict=True
        ):
            mean, base = statistics.fmean(now), statistics.fmean(before)
            yield f"{mean:.0f} ({mean / base:.2f})" if base else f"{mean:.0f}"
        yield f"{self.repeated}"


class Meter:
    """Asks questions, and measures them."""

    def __init__(self, wiring: Wiring, real: Real) -> None:
        self._workflow, self._pids = LocalWorkflow(wiring), real.pids()
        self._took: list[float] = []
        call = Server.call

        def counted(server: Server, *arguments: Any, **options: Any) -> Json:
            answer = call(server, *arguments, **options)
            self._took.append(float(answer.get("took", 0)))
            return answer

        Server.call = counted  # type: ignore[assignment,method-assign]

    def times(self, questions: Sequence[str]) -> dict[bool, Times]:
        """Return the times of each question, with the graph (True) and without it."""
        times = {True: Times(), False: Times()}
        warm_up = questions[:WARM_UP]
        for number, question in enumerate([*warm_up, *questions]):
            for enabled in (True, False) if number % 2 else (False, True):
                self._ask(question, enabled, times[enabled] if number >= len(warm_up) else Times())
        return times

    def _ask(self, question: str, enabled: bool, times: Times) -> None:
        request = {"query": question, "top_k": 10, "kg_expansion": {"enabled": enabled}}
        for _ in range(TRIES):
            self._took.clear()
            before = [cpu_s([pid]) for pid in self._pids]
            ours, begun = time.process_time(), time.perf_counter()
            reply = submit(self._workflow, request, "search")
            wall, ours = time.perf_counter() - begun, time.process_time() - ours
            if reply.status == 200 and not reply.body["diagnostics"]["degraded"]:
                break
            times.repeated += 1
        else:
            raise SystemExit(f"{question!r} was degraded {TRIES} times: {reply.body}")
        after = [cpu_s([pid]) for pid in self._pids]
        times.took.append(sum(self._took))
        times.wall.append(wall * 1000)
        times.ours.append(ours * 1000)
        times.servers.append([(b - a) * 1000 for a, b in zip(before, after, strict=True)])


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", default="100000,300000")
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    questions = [row["question"] for row in rows(options.folder / "questions.jsonl")]
    columns = "chunks | graph | took, ms | wall p50 | p95 | our CPU | OpenSearch | Neo4j | repeated"
    lines = [f"| {columns} |", f"|{'---|' * 9}"]
    firsts: dict[bool, Times] = {}
    with real_stores(options.folder, NAMESPACE, heap_mb=HEAP_MB) as real:
        settings = Settings.from_environment(real.environment())
        wiring = Wiring(settings, Telemetry(level="ERROR"))
        base, meter = Base(wiring), Meter(wiring, real)
        for size in map(int, options.sizes.split(",")):
            begun, before = time.monotonic(), base.chunks
            base.grow(size)
            rate = (base.chunks - before) / (time.monotonic() - begun)
            print(f"{base.chunks} chunks, {rate:.0f} added a second", flush=True)
            for enabled, times in meter.times(questions[: options.requests]).items():
                first = firsts.setdefault(enabled, times)
                cells = (f"{base.chunks}", "on" if enabled else "off", *times.cells(first))
                lines.append(f"| {' | '.join(cells)} |")
                print(lines[-1], flush=True)
        wiring.close()
    if options.report:
        options.report.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
