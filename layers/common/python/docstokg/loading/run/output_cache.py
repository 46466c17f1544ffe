"""Model output kept between runs."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from docstokg.contracts.ingest import IngestRun
from docstokg.domain.identity import text_sha256
from docstokg.domain.text.sentences import sentence_spans
from docstokg.errors import WrongAnswer
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.records import FINGERPRINT
from docstokg.loading.run.rows import Part, every_object, packed, unpacked
from docstokg.ports import ObjectStore

ENCODINGS = "encodings/"
# Chunks after which the output of a large object is stored, so that a kill loses no more.
STORED_EVERY = 512
# An object of the cache is not swept before, as the run that wrote it may not have ended.
SWEPT_AFTER_S = 2 * 86_400.0

# JSON values of a model by the digest of their inputs.
type Outputs = dict[str, Any]


class OutputCache:
    """The output of one kind for the texts of a namespace, one object per part of a source.

    A text is known by the digest of the models, its words and its headings. What a source no longer
    contains goes when its part is stored again.
    """

    def __init__(
        self,
        run: IngestRun,
        objects: ObjectStore,
        kind: str,
        models: object,
        parts: Iterable[Part],
    ) -> None:
        self._run, self._objects, self._kind, self._models = run, objects, kind, models
        self._parts = [part for part in parts if not (part.is_known or part.unread)]
        self._stored = {key: self._fetched(key) for key in map(self._key, self._parts)}
        self._current: dict[str, Outputs] = {key: {} for key in self._stored}
        self._unstored = 0

    def outputs(
        self,
        chunks: Sequence[tuple[Part, RawChunk]],
        compute: Callable[[Sequence[RawChunk]], Iterable[Any]],
    ) -> Iterator[Any]:
        """Return the output of each chunk, computed for texts without one.

        `compute`: returns one JSON value per chunk, in order.
        """
        keys = [self._key(part) for part, _ in chunks]
        digests = [_digest(self._models, chunk) for _, chunk in chunks]
        outputs: Outputs = {}
        for key in dict.fromkeys(keys):
            outputs |= self._stored[key]
        pairs = zip(digests, chunks, strict=True)
        new = {digest: chunk for digest, (_, chunk) in pairs if digest not in outputs}
        outputs |= zip(new, compute(list(new.values())), strict=True)
        for key, digest in zip(keys, digests, strict=True):
            self._current[key][digest] = outputs[digest]
        self._unstored += len(new)
        if self._unstored >= STORED_EVERY:
            self._store({key: self._stored[key] | self._current[key] for key in self._current})
        return (outputs[digest] for digest in digests)

    def close(self) -> None:
        """Store what is new, and drop texts that their source no longer contains."""
        self._store(self._current)
        for part in self._parts:
            key = self._key(part)
            if part.last:
                for entry in every_object(self._objects, key.rpartition("-")[0]):
                    if entry.key > key or (entry.key == key and not self._current[key]):
                        self._objects.delete(entry.key)

    def _store(self, outputs: dict[str, Outputs]) -> None:
        for key, rows in outputs.items():
            if rows and rows != self._stored[key]:
                self._objects.put(key, packed([json.dumps(rows)]))
                self._stored[key] = dict(rows)
        self._unstored = 0

    def _key(self, part: Part) -> str:
        folder = _folders(self._run.namespace, part.inner)[self._run.posted]
        return f"{folder}{self._kind}-{part.number:05}.json.gz"

    def _fetched(self, key: str) -> Outputs:
        try:
            outputs: Outputs = json.loads("\n".join(unpacked(self._objects.get(key))))
        except (KeyError, ValueError, WrongAnswer):  # none yet, or truncated: computed again
            return {}
        return outputs


def forget_outputs(objects: ObjectStore, namespace: str, sources: Iterable[str]) -> None:
    """Delete the output of these sources: paths or ids of documents."""
    for folder in (folder for source in sources for folder in _folders(namespace, source)):
        for entry in every_object(objects, folder):
            objects.delete(entry.key)


def sweep_outputs(
    objects: ObjectStore, namespace: str, sources: Collection[str], now_s: float
) -> None:
    """Delete the output of all sources but these, unless it was stored less than two days ago.

    `now_s`: Unix time.
    """
    folders = {folder for source in sources for folder in _folders(namespace, source)}
    for entry in every_object(objects, f"{ENCODINGS}{namespace}/"):
        folder = entry.key[: entry.key.rindex("/") + 1]
        if folder not in folders and now_s - entry.modified > SWEPT_AFTER_S:
            objects.delete(entry.key)


def _folders(namespace: str, source: str) -> tuple[str, str]:
    """Return the folders of an object of `sources/` and of an upload with this path or id."""
    digest = text_sha256(source)[:32]
    return f"{ENCODINGS}{namespace}/{digest}/", f"{ENCODINGS}{namespace}/{digest}-upload/"


def _digest(models: object, chunk: RawChunk) -> str:
    embedding = hashlib.sha256(chunk.embedding or b"").hexdigest()
    content = [
        FINGERPRINT,
        models,
        chunk.title,
        chunk.headings,
        chunk.text,
        sentence_spans(chunk.text),
        chunk.mentions is None,
        embedding,
        chunk.sparse,
    ]
    return text_sha256(json.dumps(content, sort_keys=True))
