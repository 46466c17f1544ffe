"""A run's model output, per shard."""

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from itertools import batched
from typing import Any

from docstokg.contracts.ingest import IngestRun
from docstokg.loading.context import CHUNK_BATCH
from docstokg.loading.read.raw_input import Encoding, RawChunk
from docstokg.loading.run.output_cache import OutputCache
from docstokg.loading.run.rows import ENDING, Shard, packed, unpacked
from docstokg.ports import ObjectStore

# Models that read a shard: `dense`, `sparse` and `names`, each once it is done.
type Models = dict[str, str | None]


def put_output(
    run: IngestRun,
    objects: ObjectStore,
    kind: str,
    shard: str,
    models: Models,
    compute: Callable[[Sequence[RawChunk]], Iterable[Any]],
) -> int:
    """Write the JSON values of `compute` for a shard's chunks; return the number of chunks.

    `compute`: returns one JSON value per chunk, in order; it gets those without an `OutputCache`
    entry.
    """
    rows, count = Shard.fetched(run, objects, shard), 0
    cache = OutputCache(run, objects, kind, models, rows.parts)
    lines = [json.dumps(models)]
    for batch in batched(rows.every(), CHUNK_BATCH):
        chunks = [(part, record) for part, record in batch if isinstance(record, RawChunk)]
        values = cache.outputs(chunks, compute)
        lines += [json.dumps(next(values) if isinstance(r, RawChunk) else None) for _, r in batch]
        count += len(chunks)
    cache.close()
    objects.put(run.key(kind, shard + ENDING), packed(lines))
    objects.put(run.key("models", f"{shard}-{kind}.json"), lines[0].encode())
    return count


def models_of(run: IngestRun, objects: ObjectStore, shard: str) -> Models:
    """Return the models that have read a shard, {} if none has."""
    models: Models = {}
    for entry in objects.list(run.key("models", f"{shard}-")):
        models |= json.loads(objects.get(entry.key))
    return models


def shard_with(run: IngestRun, objects: ObjectStore, kind: str, shard: str) -> Shard:
    """Fetch a shard with one kind of output; `KeyError`: one is missing; `WrongAnswer`: broken."""
    rows = Shard.fetched(run, objects, shard)
    rows.output = unpacked(objects.get(run.key(kind, shard + ENDING)))
    return rows


def encoding_value(encoding: Encoding) -> list[Any]:
    """Return an encoding as a JSON value."""
    vector, sentences = (base64.b64encode(raw or b"").decode() for raw in encoding[:2])
    return [vector, sentences, encoding.weights]


def encoding_of(value: Sequence[Any]) -> Encoding:
    """Parse the output of `encoding_value`."""
    vector, sentences = map(base64.b64decode, value[:2])
    return Encoding(vector or None, sentences, value[2])
