"""What models said of a run's texts, kept so that its later stages need not ask them again.

The ports stand between: what records asks a model and notes each answer, what recalls gives the
notes. So the stages run a load's own functions, and neither knows of the other.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from docstokg.contracts.ingest import IngestRun
from docstokg.contracts.records import FoundName
from docstokg.errors import Unavailable
from docstokg.loading.run.rows import ENDING, packed_lines, unpacked_lines
from docstokg.ports import Embedder, NameFinder, ObjectStore, Parts, Spans, SparseEncoder

Readings = dict[str, Parts]
Weights = dict[str, dict[str, float]]
FoundNames = dict[str, tuple[FoundName, ...]]


def text_key(text: str, spans: Spans = ()) -> str:
    """Name a text with the stretches that are asked for."""
    request = json.dumps([text, [list(span) for span in spans]])
    return hashlib.sha256(request.encode()).hexdigest()[:40]


class RecordingEmbedder:
    """An embedder whose readings are noted."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self.model, self.dimension = inner.model, inner.dimension
        self.readings: Readings = {}

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Embed; nothing of it is noted."""
        return self._inner.embed(texts, timeout_s)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Embed texts with their stretches."""
        made = self._inner.embed_parts(texts, parts)
        keys = [text_key(text, spans) for text, spans in zip(texts, parts, strict=True)]
        self.readings.update(zip(keys, made, strict=True))
        return made


class RecalledEmbedder:
    """An embedder that gives what was noted; `inner` reads the names of entities and the rest."""

    def __init__(self, inner: Embedder, readings: Mapping[str, Parts]) -> None:
        self._inner, self._readings = inner, readings
        self.model, self.dimension = inner.model, inner.dimension

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Embed."""
        return self._inner.embed(texts, timeout_s)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Give what was noted, and embed what was not."""
        keys = [text_key(text, spans) for text, spans in zip(texts, parts, strict=True)]
        todo = [i for i, key in enumerate(keys) if key not in self._readings]
        made = self._inner.embed_parts([texts[i] for i in todo], [parts[i] for i in todo])
        fresh = {keys[i]: reading for i, reading in zip(todo, made, strict=True)}
        return tuple(fresh.get(key) or self._readings[key] for key in keys)


class RecordingSparse:
    """A sparse encoder whose weights are noted."""

    def __init__(self, inner: SparseEncoder) -> None:
        self._inner = inner
        self.model = inner.model
        self.weights: Weights = {}

    def encode(self, texts: Sequence[str], timeout_s: float | None) -> tuple[dict[str, float], ...]:
        """Weigh passages."""
        made = self._inner.encode(texts, timeout_s)
        self.weights.update(zip(map(text_key, texts), made, strict=True))
        return made

    def encode_query(self, text: str, timeout_s: float | None) -> dict[str, float]:
        """Weigh a question; nothing of it is noted."""
        return self._inner.encode_query(text, timeout_s)


class RecalledSparse:
    """A sparse encoder that gives what was noted, where its own weights need not be installed."""

    def __init__(self, model: str, weights: Weights) -> None:
        self.model, self._weights = model, weights

    def encode(self, texts: Sequence[str], timeout_s: float | None) -> tuple[dict[str, float], ...]:
        """Give what was noted; `Unavailable` for a text that nobody has weighed."""
        try:
            return tuple(self._weights[text_key(text)] for text in texts)
        except KeyError as missing:
            raise Unavailable(
                "a chunk was not encoded yet: run `encode` for its shard"
            ) from missing

    def encode_query(self, text: str, timeout_s: float | None) -> dict[str, float]:
        """Refuse: loads ask no questions."""
        raise Unavailable("what was noted of texts answers no question")


class RecordingNames:
    """A recogniser whose names are noted."""

    def __init__(self, inner: NameFinder) -> None:
        self._inner = inner
        self.model = inner.model
        self.names: FoundNames = {}

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        """Find the names of texts."""
        made = self._inner.find(texts)
        self.names.update(zip(map(text_key, texts), made, strict=True))
        return made


class RecalledNames:
    """A recogniser that gives what was noted; texts of earlier loads `inner` reads, if there is."""

    def __init__(self, model: str, names: Mapping[str, tuple[FoundName, ...]]) -> None:
        self.model, self._names = model, names
        self.inner: NameFinder | None = None

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        """Give what was noted of each text; `Unavailable` where nobody has read one."""
        keys = [text_key(text) for text in texts]
        there = {key: names for key in keys if (names := self._names.get(key)) is not None}
        todo = [i for i, key in enumerate(keys) if key not in there]
        if todo and (self.inner is None or self.inner.model != self.model):
            raise Unavailable(
                f"texts of earlier loads have to be read by {self.model!r}, which is not installed"
                " here: load once with `docstokg load`"
            )
        if todo and self.inner is not None:
            made = self.inner.find([texts[i] for i in todo])
            there.update((keys[i], names) for i, names in zip(todo, made, strict=True))
        return tuple(there[key] for key in keys)


def put_readings(
    run: IngestRun,
    objects: ObjectStore,
    shard: str,
    dense: RecordingEmbedder | None,
    sparse: RecordingSparse | None,
) -> None:
    """Write what the encoders said of a shard's chunks."""
    head = {
        "dense": dense.model if dense else None,
        "dimension": dense.dimension if dense else None,
        "sparse": sparse.model if sparse else None,
    }
    lines = [json.dumps(head)]
    for key, (vector, parts) in sorted(dense.readings.items()) if dense else ():
        lines.append(json.dumps(["dense", key, _text(vector), _text(parts)]))
    for key, weights in sorted(sparse.weights.items()) if sparse else ():
        lines.append(json.dumps(["sparse", key, weights]))
    objects.put(run.key("vectors", shard + ENDING), packed_lines(lines))
    objects.put(run.key("encoded", shard + ENDING), packed_lines(lines[:1]))


def readings(
    run: IngestRun, objects: ObjectStore, shards: Iterable[str]
) -> tuple[Readings, Weights]:
    """Read what the encoders said of some shards' chunks; a shard nobody encoded says nothing."""
    vectors: Readings = {}
    weights: Weights = {}
    for shard in shards:
        for line in _lines(run, objects, "vectors", shard)[1:]:
            row = json.loads(line)
            if row[0] == "dense":
                vectors[row[1]] = (base64.b64decode(row[2]), base64.b64decode(row[3]))
            else:
                weights[row[1]] = row[2]
    return vectors, weights


def put_names(
    run: IngestRun, objects: ObjectStore, shard: str, names: RecordingNames | None
) -> None:
    """Write which names were found in a shard's chunks, sorted."""
    lines = [json.dumps({"model": names.model if names else None})]
    for key, row in sorted(names.names.items()) if names else ():
        lines.append(json.dumps([key, [list(name) for name in row]]))
    objects.put(run.key("names", shard + ENDING), packed_lines(lines))


class Answers(NamedTuple):
    """What models said of a shard, but its vectors.

    `models`: `dense`, `sparse` and `model`, of the names; without those that have not read it yet.
    """

    models: dict[str, str | None]
    names: list[tuple[str, tuple[FoundName, ...]]]


def answers_of(run: IngestRun, objects: ObjectStore, shard: str) -> Answers:
    """Read which models read a shard, and which names were found in each of its texts."""
    head, *rows = _lines(run, objects, "names", shard)
    models = json.loads(_lines(run, objects, "encoded", shard)[0]) | json.loads(head)
    names = ((key, row) for key, row in map(json.loads, rows))
    return Answers(models, [(key, tuple(FoundName(*name) for name in row)) for key, row in names])


def _lines(run: IngestRun, objects: ObjectStore, kind: str, shard: str) -> list[str]:
    try:
        return unpacked_lines(objects.get(run.key(kind, shard + ENDING)))
    except KeyError:
        return ["{}"]


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
