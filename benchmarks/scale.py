"""What real servers cost as a corpus grows: load, ask, add noisy copies, ask again.

    python -m benchmarks.scale SET... [--copies 2 5 10 20 40 79] [--heap-mb 1024] [--minutes 120]
                               [--questions 100]

Starts both servers in a folder of their own, loads every SET as `docstokg load` does, then writes
copies of each chunk until it is there so many times (see `benchmarks.http_api`): the index and the
graph are written beside each other. After each step the sets' questions are put, mixed, to the
whole state machine, each for the first time; ten others come before. A row a step, times in ms,
processor time a question or a chunk, ours and the servers' apart; and for the last step the disk.
Ends with the step that is under way when the minutes are over.
"""

import argparse
import os
import resource
import tempfile
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched
from pathlib import Path

from benchmarks.embedded_index import chunks, percentiles, rows
from benchmarks.http_api import BATCH, NAMESPACE, mentions, node, whole
from benchmarks.load_stores import Real, real_stores
from benchmarks.real_stores import questions_of, request
from docstokg.contracts.records import ChunkRecord
from docstokg.domain.graph.linking import Linker
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.asking import ask
from docstokg_local.engine.workflow import LocalWorkflow
from docstokg_local.loading.stores import stores_of

TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
WARM_UP = 10


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor seconds until now: ours, then each server's; resident MB of each server."""

    at: float
    own: float
    servers: tuple[float, ...]
    resident_mb: tuple[int, ...]

    def since(self, before: "Spent", count: int) -> str:
        """Give milliseconds of processor time for each of `count`, ours and each server's."""
        found = [self.own - before.own]
        found += [now - then for now, then in zip(self.servers, before.servers, strict=True)]
        return ", ".join(f"{seconds / count * 1000:.1f}" for seconds in found)


def spent(pids: list[int]) -> Spent:
    """Read the kernel's counters (`proc_pid_stat(5)`)."""
    servers, resident = [], []
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        servers.append((int(fields[11]) + int(fields[12])) / TICK)
        resident.append(int(fields[21]) * PAGE // 10**6)
    return Spent(time.monotonic(), time.process_time(), tuple(servers), tuple(resident))


def disk_mb(folder: Path) -> int:
    """Megabytes below a folder."""
    return sum(path.stat().st_blocks for path in folder.rglob("*") if path.is_file()) * 512 // 10**6


def answered(settings: Settings, questions: list[str], pids: list[int]) -> str:
    """Ask every question once and give the row's part about it."""
    wiring = Wiring(settings, Telemetry(level="ERROR"))
    with tempfile.TemporaryDirectory() as cache:
        fresh = Wiring(settings.model_copy(update={"cache_dir": cache}), wiring.telemetry)
        made = {"embedder": fresh.embedder(), "sparse_encoder": fresh.sparse_encoder()}
        workflow = LocalWorkflow(Wiring(settings, wiring.telemetry, made))
        for question in questions[:WARM_UP]:
            ask(workflow, request(f"Again: {question}", NAMESPACE))
        walls, degraded = [], Counter[str]()
        before = spent(pids)
        for question in questions:
            begun = time.perf_counter()
            outcome = ask(workflow, request(question, NAMESPACE))
            walls.append((time.perf_counter() - begun) * 1000)
            assert outcome.status == 200, outcome
            degraded.update(outcome.body["diagnostics"]["degraded_reasons"])
        after = spent(pids)
    wiring.close()
    found = percentiles(walls)
    resident = ", ".join(map(str, after.resident_mb))
    return (
        f"{found['p50']:.0f} / {found['p95']:.0f} | {after.since(before, len(questions))} | "
        f"{resident} | {dict(degraded) or 'none'}"
    )


class Copies:
    """Writes noisy copies of the sets' passages through the ports a load uses."""

    def __init__(self, wiring: Wiring, sets: list[Path]) -> None:
        self.passages = [row for folder in sets for row in rows(folder / "passages.jsonl")]
        texts = [f"{row['title']}. {row['text']}".removeprefix(". ") for row in self.passages]
        embedder, encoder = wiring.embedder(), wiring.sparse_encoder()
        assert embedder is not None
        assert encoder is not None
        self._models = (embedder.model, embedder.dimension, encoder.model)
        vectors, weights = embedder.embed(texts, None), encoder.encode(texts, None)
        self.index, self.graph = wiring.index_writer(), wiring.graph_writer()
        self._linker = Linker(self.graph.aliases(NAMESPACE))
        self._made = chunks(10**9, self.passages, vectors, weights)
        for _ in self.passages:  # the first of each is what was loaded
            next(self._made)

    def add(self, count: int) -> None:
        """Write the next `count` copies."""
        self.index.open_load("copies", *self._models)
        written: Future[None] | None = None
        with ThreadPoolExecutor(1) as beside:
            for batch in batched((next(self._made) for _ in range(count)), BATCH, strict=False):
                copied = [whole(chunk) for chunk in batch]
                if written is not None:
                    written.result()
                written = beside.submit(self._into_graph, copied)
                self.index.put([(chunk, chunk.text_sha256) for chunk in copied])
            if written is not None:
                written.result()
        self.graph.close_load()
        self.index.close_load()

    def _into_graph(self, copied: list[ChunkRecord]) -> None:
        self.graph.put_chunks([node(chunk) for chunk in copied])
        linked = {chunk.uuid: mentions(chunk, self._linker) for chunk in copied}
        self.graph.put_mentions(NAMESPACE, linked)


def grown(real: Real, given: argparse.Namespace) -> None:
    """Load, then go from step to step; print a row each."""
    ends = time.monotonic() + given.minutes * 60
    values = {k.removeprefix("DOCSTOKG_").lower(): v for k, v in real.environment().items()}
    settings = Settings(**values)
    wiring = Wiring(settings)
    questions = questions_of(given.sets)[: given.questions]
    before = spent(real.pids())
    options = LoadOptions(namespace=NAMESPACE)
    held = load(given.sets, options, stores_of(wiring), RejectLog(None)).chunks
    print(
        "| chunks | p50 / p95 ms | processor time a question: ours, OpenSearch, Neo4j | resident MB"
        " | degraded | added a second | processor time a chunk | load |\n" + "|---" * 8 + "|"
    )
    added = held
    copies: Copies | None = None
    for step in (1, *given.copies):
        if step > 1:
            copies = copies or Copies(wiring, given.sets)
            before = spent(real.pids())
            added = len(copies.passages) * step - held
            copies.add(added)
            held += added
        after = spent(real.pids())
        rate, each = added / (after.at - before.at), after.since(before, added)
        row = answered(settings, questions, real.pids())
        load_now = os.getloadavg()[0]
        print(f"| {held:,} | {row} | {rate:.0f} | {each} | {load_now:.1f} |", flush=True)
        if time.monotonic() > ends:
            break
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 // 10**6
    sizes = ", ".join(f"{which.name} {disk_mb(which)} MB" for which in real.home.iterdir())
    print(f"On the disk: {sizes}. The loading process at its peak: {peak} MB.")
    wiring.close()


def main() -> None:
    """Start the servers and grow what they hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--copies", type=int, nargs="+", default=[2, 5, 10, 20, 40, 79])
    parser.add_argument("--heap-mb", type=int, default=1024)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--questions", type=int, default=100)
    given = parser.parse_intermixed_args()
    with real_stores(None, NAMESPACE, given.heap_mb) as real:
        grown(real, given)


if __name__ == "__main__":
    main()
