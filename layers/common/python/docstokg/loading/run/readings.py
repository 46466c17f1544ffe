"""What models said of a run's texts, kept so that its later stages need not ask them again.

The ports stand between: a recorded model gives what was noted and asks the model about the rest.
So the stages run a load's own functions, and neither knows of the other.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from docstokg.contracts.ingest import IngestRun
from docstokg.contracts.records import FoundName
from docstokg.errors import Unavailable
from docstokg.loading.run.rows import ENDING, each_line, packed_lines
from docstokg.ports import Embedder, NameFinder, ObjectStore, Parts, Spans, SparseEncoder

Readings = dict[str, Parts]
Weights = dict[str, dict[str, float]]


class Notes[Answer](Protocol):
    """What was noted, by text key."""

    def get(self, key: str, /) -> Answer | None:
        """Give it, or None."""


def text_key(text: str, spans: Spans = ()) -> str:
    """Name a text with the stretches that are asked for."""
    request = json.dumps([text, [list(span) for span in spans]])
    return hashlib.sha256(request.encode()).hexdigest()[:40]


class _Recorded[Answer]:
    """A model behind its notes; without any it notes what it is asked, in `made`."""

    def __init__(self, notes: Notes[Answer] | None) -> None:
        self.made: dict[str, Answer] = {}
        self._notes, self._keeps = (self.made, True) if notes is None else (notes, False)

    def _answers(
        self, keys: Sequence[str], ask: Callable[[list[int]], Iterable[Answer]]
    ) -> tuple[Answer, ...]:
        """Give an answer for each key; `ask` is given the places of those nothing is noted of."""
        there = {key: noted for key in keys if (noted := self._notes.get(key)) is not None}
        if todo := [place for place, key in enumerate(keys) if key not in there]:
            made = dict(zip((keys[place] for place in todo), ask(todo), strict=True))
            there |= made
            if self._keeps:
                self.made |= made
        return tuple(there[key] for key in keys)


class RecordedEmbedder(_Recorded[Parts]):
    """An embedder; names of entities are not noted."""

    def __init__(self, inner: Embedder, notes: Notes[Parts] | None = None) -> None:
        super().__init__(notes)
        self._inner, self.model, self.dimension = inner, inner.model, inner.dimension

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Embed."""
        return self._inner.embed(texts, timeout_s)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Embed texts with their stretches."""
        keys = [text_key(text, spans) for text, spans in zip(texts, parts, strict=True)]
        return self._answers(
            keys,
            lambda todo: self._inner.embed_parts(
                [texts[i] for i in todo], [parts[i] for i in todo]
            ),
        )


class RecordedSparse(_Recorded[dict[str, float]]):
    """A sparse encoder of passages; without `inner` every text has to be noted."""

    def __init__(
        self, model: str, inner: SparseEncoder | None, notes: Notes[dict[str, float]] | None = None
    ) -> None:
        super().__init__(notes)
        self.model, self._inner = model, inner

    def encode(self, texts: Sequence[str], timeout_s: float | None) -> tuple[dict[str, float], ...]:
        """Weigh passages; `Unavailable` for one that nobody has weighed, or can."""

        def ask(todo: list[int]) -> Iterable[dict[str, float]]:
            if self._inner is None:
                raise Unavailable("a chunk was not encoded yet: run `encode` for its shard")
            return self._inner.encode([texts[i] for i in todo], timeout_s)

        return self._answers([text_key(text) for text in texts], ask)

    def encode_query(self, text: str, timeout_s: float | None) -> dict[str, float]:
        """Raise `Unavailable`: questions are not noted."""
        raise Unavailable("what was noted of texts answers no question")


class RecordedNames(_Recorded[tuple[FoundName, ...]]):
    """A recogniser; without `inner`, or with another one, every text has to be noted."""

    def __init__(
        self,
        model: str,
        inner: NameFinder | None,
        notes: Notes[tuple[FoundName, ...]] | None = None,
    ) -> None:
        super().__init__(notes)
        self.model, self._inner = model, inner

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        """Find the names of texts; `Unavailable` where nobody has read one, or can."""

        def ask(todo: list[int]) -> Iterable[tuple[FoundName, ...]]:
            if self._inner is None or self._inner.model != self.model:
                raise Unavailable(
                    f"texts of earlier loads have to be read by {self.model!r}, which is not"
                    " installed here: load once with `docstokg load`"
                )
            return self._inner.find([texts[i] for i in todo])

        return self._answers([text_key(text) for text in texts], ask)


def put_readings(
    run: IngestRun,
    objects: ObjectStore,
    shard: str,
    dense: RecordedEmbedder | None,
    sparse: RecordedSparse | None,
) -> None:
    """Write what the encoders said of a shard's chunks."""
    head = {
        "dense": dense.model if dense else None,
        "dimension": dense.dimension if dense else None,
        "sparse": sparse.model if sparse else None,
    }
    lines = [json.dumps(head)]
    for key, (vector, parts) in sorted(dense.made.items()) if dense else ():
        lines.append(json.dumps(["dense", key, _text(vector), _text(parts)]))
    for key, weights in sorted(sparse.made.items()) if sparse else ():
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
        for kind, key, *row in map(json.loads, _lines(run, objects, "vectors", shard)[1:]):
            if kind == "dense":
                vectors[key] = (base64.b64decode(row[0]), base64.b64decode(row[1]))
            else:
                weights[key] = row[0]
    return vectors, weights


def put_names(
    run: IngestRun, objects: ObjectStore, shard: str, names: RecordedNames | None
) -> None:
    """Write which names were found in a shard's chunks, sorted."""
    lines = [json.dumps({"model": names.model if names else None})]
    for key, row in sorted(names.made.items()) if names else ():
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
        return list(each_line(objects.get(run.key(kind, shard + ENDING))))
    except KeyError:
        return ["{}"]


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
