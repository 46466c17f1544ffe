"""How fast the embedded index answers at 10,000 and 100,000 chunks, channel by channel.

    python benchmarks/embedded_index.py [--data FOLDER] [--chunks 10000 100000]

The corpus is repeated with noise: 2,000 real abstracts are encoded, then copied with a tenth of
their words and tokens exchanged, weights scaled by 0.8 to 1.2 and vectors turned by random noise.
Questions are real and encoded beforehand, so no time of an encoder is in the figures.
"""

import argparse
import hashlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.onnx.splade import OnnxSplade
from docstokg.adapters.sqlite.index import SqliteIndex, SqliteIndexWriter
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder, CachedSparseEncoder
from docstokg.contracts.records import ChunkRecord, FactRecord, Scope
from docstokg.contracts.retrieval import ChannelQuery
from docstokg.domain.vectors import pack, unpack

BASE = 2000
BATCH = 1000
NOISE = 0.3
SIZES = {"bm25": 80, "splade": 80, "dense": 60, "facts": 20}


def rows(path: Path) -> list[dict[str, object]]:
    """Read JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def chunks(
    count: int,
    passages: list[dict[str, object]],
    vectors: tuple[bytes, ...],
    weights: tuple[dict[str, float], ...],
) -> Iterator[ChunkRecord]:
    """Yield noisy copies of the encoded passages, the first of each without noise."""
    chance = random.Random(1)
    noise = np.random.default_rng(1)
    words = [str(passage["text"]).split() for passage in passages]
    tokens = [list(map_) for map_ in weights]
    for number in range(count):
        base = number % len(passages)
        text, sparse, vector = " ".join(words[base]), weights[base], vectors[base]
        if number >= len(passages):
            other = words[chance.randrange(len(words))]
            text = " ".join(
                chance.choice(other) if chance.random() < 0.1 else word for word in words[base]
            )
            strange = tokens[chance.randrange(len(tokens))]
            sparse = {
                chance.choice(strange) if chance.random() < 0.1 else token: round(
                    weight * chance.uniform(0.8, 1.2), 3
                )
                for token, weight in sparse.items()
            }
            turned = unpack(vector) + NOISE * noise.normal(size=len(vector) // 4) / 20
            vector = pack(turned.astype(np.float32))
        yield ChunkRecord(
            uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, f"docstokg:bench/{number}")),
            chunk_id=str(number),
            namespace="bench",
            doc_id=f"doc{number // 4}",
            title=str(passages[base]["title"]),
            text=text,
            text_sha256=hashlib.sha256(text.encode()).hexdigest(),
            topics=(f"topic{number % 10}",),
            acl=("staff",) if number % 5 == 0 else (),
            sparse={token: weight for token, weight in sparse.items() if weight > 0},
            vector=vector,
            run_id="bench",
        )


def percentiles(values: list[float]) -> dict[str, float]:
    """Give median and 95th percentile."""
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 1),
    }


def timed(calls: list[Callable[[], object]]) -> dict[str, float]:
    """Time each call once, in milliseconds; `cpu` is processor time per call, free of waiting."""
    took = []
    cpu = time.process_time()
    for call in calls:
        started = time.perf_counter()
        call()
        took.append((time.perf_counter() - started) * 1000)
    return percentiles(took) | {"cpu": round((time.process_time() - cpu) / len(calls) * 1000, 1)}


def measure(folder: Path, count: int, data: Path, questions: int) -> dict[str, object]:
    """Load one corpus and ask it; every figure is in milliseconds unless its name says seconds."""
    cache = Path(os.environ.get("DOCSTOKG_CACHE_DIR", "~/.cache/docstokg")).expanduser()
    embedder = CachedEmbedder(OnnxMiniLm(), cache)
    encoder = CachedSparseEncoder(OnnxSplade(), cache)
    passages = rows(data / "passages.jsonl")[:BASE]
    texts = [f"{p['title']}. {p['text']}" if p["title"] else str(p["text"]) for p in passages]
    vectors, weights = embedder.embed(texts, None), encoder.encode(texts, None)
    asked = [str(q["question"]) for q in rows(data / "questions.jsonl")[:questions]]

    path = folder / f"bench-{count}.sqlite"
    writer = SqliteIndexWriter(path)
    started = time.perf_counter()
    writer.open_load("bench", embedder.model, embedder.dimension, encoder.model)
    batch: list[tuple[ChunkRecord, str]] = []
    facts: list[FactRecord] = []
    for item in chunks(count, passages, vectors, weights):
        batch.append((item, item.text_sha256))
        facts.append(
            FactRecord(
                id=item.chunk_id,
                namespace="bench",
                text=" ".join(item.text.split()[:8]),
                source=f"s{item.chunk_id}",
                type="states",
                target=f"t{item.chunk_id}",
                evidence_uuid=item.uuid,
                doc_id=item.doc_id,
                acl=item.acl,
            )
        )
        if len(batch) == BATCH:
            writer.put(batch)
            writer.put_facts(facts)
            batch, facts = [], []
    writer.put(batch)
    writer.put_facts(facts)
    put_s = time.perf_counter() - started
    started = time.perf_counter()
    writer.close_load()
    close_s = time.perf_counter() - started
    writer.close()

    index = SqliteIndex(path)
    started = time.perf_counter()
    index.warm(600)
    warm_s = time.perf_counter() - started
    query_vectors = embedder.embed(asked, None)
    queries = [
        [
            ChannelQuery(channel="bm25", size=SIZES["bm25"], text=text),
            ChannelQuery(
                channel="splade", size=SIZES["splade"], weights=encoder.encode_query(text, None)
            ),
            ChannelQuery(channel="dense", size=SIZES["dense"], vector=vector),
            ChannelQuery(channel="facts", size=SIZES["facts"], text=text),
        ]
        for text, vector in zip(asked, query_vectors, strict=True)
    ]
    scopes = {
        "all visible": Scope(namespace="bench"),
        "one group": Scope(namespace="bench", groups=("other",)),
        "one topic of ten": Scope(namespace="bench", filter={"topic": ("topic3",)}),
        "two documents": Scope(namespace="bench", doc_ids=("doc1", "doc2")),
    }
    everything = scopes["all visible"]
    for four in queries[:5]:
        index.search(four, everything, 60)
    result: dict[str, object] = {
        "chunks": count,
        "put_s": round(put_s, 1),
        "close_load_s": round(close_s, 1),
        "open_arrays_s": round(warm_s, 2),
        "file_mb": round(path.stat().st_size / 1e6),
        "arrays_mb": round(
            sum(f.stat().st_size for f in path.with_name(f"{path.name}.d").rglob("*.bin")) / 1e6
        ),
    }
    for position, channel in enumerate(SIZES):
        result[channel] = timed(
            [lambda q=four[position]: index.search([q], everything, 60) for four in queries]
        )
    for name, scope in scopes.items():
        result[f"search, {name}"] = timed(
            [lambda q=four, s=scope: index.search(q, s, 60) for four in queries]
        )
    found = [
        [hit.uuid for hit in index.search([four[0]], everything, 60)[0].hits[:48]]
        for four in queries
    ]
    result["get 48"] = timed([lambda u=uuids: index.get(u, everything, 60) for uuids in found])
    result["load average"] = [round(value, 1) for value in os.getloadavg()]
    index.close()
    return result


def main() -> int:
    """Print one JSON object per corpus size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/scifact_train"))
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--folder", type=Path, help="where the stores are made and removed")
    parser.add_argument("--questions", type=int, default=200)
    chosen = parser.parse_args()
    if not chosen.data.is_dir():
        print(f"{chosen.data} is not there: nothing measured", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        for count in chosen.chunks:
            print(json.dumps(measure(Path(folder), count, chosen.data, chosen.questions)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
