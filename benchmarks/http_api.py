"""How fast the HTTP API answers: the real server in its own process, one request at a time.

    python -m benchmarks.http_api build STORE SET... [--copies N]
    python -m benchmarks.http_api ask STORE SET... [--requests 300] [--synthesize MODEL]
                                  [--hops N]

STORE is a SQLite file, or `real` for the servers `make services` started. SET is a folder such as
../shared/data/musique100. `build` loads the sets as `docstokg load` does; with --copies every chunk
comes N times, each copy with a tenth of its words and tokens exchanged and its vector turned by
noise, mentioning what its own text mentions. `ask` puts the sets'
questions, mixed, to `docstokg serve` and prints p50 and p95 of the wall time at the client, the
embedding of a question that was never seen included, and what each step took. --hops 1 holds the
graph to one hop, --hops 0 switches it off.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import batched
from pathlib import Path

from benchmarks.embedded_index import chunks, percentiles, rows
from docstokg.contracts.records import ChunkNode, ChunkRecord, MentionRecord
from docstokg.domain.graph.linking import Linker
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.visibility import facets
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.cli.stores import settings_of
from docstokg_local.loading.stores import stores_of

NAMESPACE = "bench"
BATCH = 1000
REAL = "real"
ADDRESS = (
    "index_url",
    "index_user",
    "index_password",
    "graph_url",
    "graph_user",
    "graph_password",
)


def settings(store: str) -> Settings:
    """Take the environment's settings with this store."""
    url = REAL if store == REAL else f"sqlite:///{Path(store).resolve()}"
    return settings_of(url, url)


def build(store: str, sets: list[Path], copies: int) -> None:
    """Load the sets once, then add noisy copies."""
    wiring = Wiring(settings(store))
    started = time.monotonic()
    report = load(sets, LoadOptions(namespace=NAMESPACE), stores_of(wiring), RejectLog(None))
    print(f"{report.chunks} chunks loaded in {time.monotonic() - started:.0f} s", flush=True)
    if copies > 1:
        added = add_copies(wiring, sets, copies)
        print(f"{added} noisy copies, {time.monotonic() - started:.0f} s in all", flush=True)
    wiring.close()


def add_copies(wiring: Wiring, sets: list[Path], copies: int) -> int:
    """Write copies through the same ports a load uses."""
    passages = [row for folder in sets for row in rows(folder / "passages.jsonl")]
    texts = [
        f"{row['title']}. {row['text']}" if row["title"] else str(row["text"]) for row in passages
    ]
    embedder, encoder = wiring.embedder(), wiring.sparse_encoder()
    assert embedder is not None
    assert encoder is not None
    vectors, weights = embedder.embed(texts, None), encoder.encode(texts, None)
    index, graph = wiring.index_writer(), wiring.graph_writer()
    linker = Linker(graph.aliases(NAMESPACE))
    index.open_load("copies", embedder.model, embedder.dimension, encoder.model)
    made = chunks(len(passages) * copies, passages, vectors, weights)
    added = 0
    for batch in batched(made, BATCH, strict=False):
        copied = [whole(chunk) for chunk in batch if int(chunk.chunk_id) >= len(passages)]
        if not copied:
            continue
        index.put([(chunk, chunk.text_sha256) for chunk in copied])
        graph.put_chunks([node(chunk) for chunk in copied])
        graph.put_mentions(NAMESPACE, {chunk.uuid: mentions(chunk, linker) for chunk in copied})
        added += len(copied)
    graph.close_load()
    index.close_load()
    return added


def whole(chunk: ChunkRecord) -> ChunkRecord:
    """Give a copy what a load would have given it."""
    spans = tuple((span.start, span.end) for span in sentence_spans(chunk.text))
    return chunk.model_copy(update={"sentences": spans, "acl": ()})


def node(chunk: ChunkRecord) -> ChunkNode:
    """Make the graph's side of a chunk."""
    return ChunkNode(
        uuid=chunk.uuid,
        chunk_id=chunk.chunk_id,
        namespace=NAMESPACE,
        doc_id=chunk.doc_id,
        title=chunk.title,
        topics=chunk.topics,
        facets=facets({"doc_id": chunk.doc_id}, chunk.topics, {}),
    )


def mentions(chunk: ChunkRecord, linker: Linker) -> list[MentionRecord]:
    """Link a copy's own text."""
    found: dict[str, MentionRecord] = {}
    for match in linker.find(chunk.text):
        for entity in match.entity_ids[:1]:
            found.setdefault(
                entity,
                MentionRecord(uuid=chunk.uuid, entity=entity, start=match.start, end=match.end),
            )
    return list(found.values())


@contextlib.contextmanager
def served(store: str) -> Iterator[int]:
    """Run `docstokg serve` in its own process, with an empty cache of vectors."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "DOCSTOKG_CACHE_DIR": cache, "DOCSTOKG_LOG_LEVEL": "ERROR"}
        for name in ADDRESS:
            value = getattr(settings(store), name)
            if value is not None:
                environment[f"DOCSTOKG_{name.upper()}"] = str(value)
        command = [
            sys.executable,
            "-m",
            "docstokg_local.cli.commands",
            "serve",
            "--port",
            str(port),
        ]
        server = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
        try:
            for _ in range(600):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            yield port
        finally:
            server.terminate()
            server.wait(20)


def ask(
    store: str, sets: list[Path], requests: int, model: str | None, hops: int | None = None
) -> dict[str, object]:
    """Measure; every figure is in milliseconds."""
    questions = [
        str(row["question"]) for folder in sets for row in rows(folder / "questions.jsonl")
    ]
    random.Random(3).shuffle(questions)
    walls: list[float] = []
    steps: dict[str, list[float]] = {}
    failed = 0
    reasons: Counter[str] = Counter()
    with served(store) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for number, question in enumerate(questions[: requests + 10]):
            body: dict[str, object] = {"query": question[:4000], "namespace": NAMESPACE}
            if hops is not None:
                body["kg_expansion"] = {"hops": hops} if hops else {"enabled": False}
            if model is not None:
                body |= {
                    "synthesis": {"enabled": True, "model": model},
                    "budget": {"max_tokens_gen": 300},
                }
            started = time.perf_counter()
            connection.request(
                "POST",
                "/v1/answer",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            text = answer.read()
            wall = (time.perf_counter() - started) * 1000
            if number < 10:
                continue  # the first ones fill the file system's cache
            walls.append(wall)
            if answer.status != 200:
                failed += 1
                continue
            diagnostics = json.loads(text)["diagnostics"]
            reasons.update(diagnostics["degraded_reasons"])
            for step, took in diagnostics["timings_ms"].items():
                steps.setdefault(step, []).append(took)
        connection.close()
    return {
        "requests": len(walls),
        "failed": failed,
        "degraded": dict(reasons),
        "wall_ms": percentiles(walls),
        "steps_ms": {step: percentiles(values) for step, values in steps.items()},
        "share": {
            step: round(statistics.median(values) / statistics.median(walls), 3)
            for step, values in steps.items()
        },
    }


def main() -> None:
    """Build a store, or ask one."""
    parser = argparse.ArgumentParser(description="Speed of the HTTP API.")
    parser.add_argument("what", choices=("build", "ask"))
    parser.add_argument("store")
    parser.add_argument("sets", type=Path, nargs="+")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--synthesize", default=None, metavar="MODEL")
    parser.add_argument("--hops", type=int, choices=(0, 1, 2, 3), default=None)
    given = parser.parse_args()
    if given.what == "build":
        build(given.store, given.sets, given.copies)
    else:
        found = ask(given.store, given.sets, given.requests, given.synthesize, given.hops)
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
