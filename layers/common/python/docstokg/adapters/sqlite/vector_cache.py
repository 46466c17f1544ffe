"""Encoder cache."""

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import batched
from pathlib import Path

from docstokg.adapters.sqlite.session import transaction
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import text_sha256
from docstokg.errors import DocsToKGError, Timeout
from docstokg.ports import Embedder, Parts, QuestionReader, Spans, SparseEncoder

FILE = "vectors.sqlite"
BUSY_S = 0.1
WRITE_THROUGH = 128
TTL_S = 90 * 86400.0
# Above this size, the quarter that expires first is deleted.
MOST_BYTES = 512 << 20

_TABLE = (
    "CREATE TABLE IF NOT EXISTS vectors "
    "(key TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX IF NOT EXISTS expiring ON vectors (expires)"
)
_USED = (
    "SELECT (page_count - freelist_count) * page_size "
    "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_FIRST_QUARTER = (
    "DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY expires "
    "LIMIT (SELECT count(*) / 4 FROM vectors))"
)
_log = logging.getLogger(__name__)


class VectorCache:
    """A SQLite file under `folder`: `embed:{model}:{sha256(text)}` -> bytes, with a time to live.

    A file that is not a database is renamed.
    """

    def __init__(self, folder: Path, ttl_s: float = TTL_S, most_bytes: int = MOST_BYTES) -> None:
        self._path, self._ttl_s, self._most_bytes = folder / FILE, ttl_s, most_bytes

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the unexpired values by key; {} if the cache fails."""
        try:
            with transaction(self._path, _TABLE, BUSY_S, write=False) as db:
                rows = db.execute(
                    "SELECT key, value FROM vectors "
                    "WHERE key IN (SELECT value FROM json_each(?)) AND expires > ?",
                    (json.dumps(list(keys)), time.time()),
                )
                return dict(rows.fetchall())
        except DocsToKGError as broken:
            self._lost("read", broken)
            return {}

    def put(self, values: Mapping[str, bytes]) -> None:
        """Store values for `ttl_s` seconds, replacing by key; a failure is only logged."""
        now = time.time()
        rows = [(key, value, now + self._ttl_s) for key, value in sorted(values.items())]
        try:
            with transaction(self._path, _TABLE, BUSY_S) as db:
                db.execute("DELETE FROM vectors WHERE expires <= ?", (now,))
                db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
                if db.execute(_USED).fetchone()[0] > self._most_bytes:
                    db.execute(_FIRST_QUARTER)
        except DocsToKGError as broken:
            self._lost("written", broken)

    def _lost(self, verb: str, broken: DocsToKGError) -> None:
        level = logging.DEBUG if isinstance(broken, Timeout) else logging.WARNING
        _log.log(level, "vector cache %s could not be %s: %s", self._path, verb, broken)
        # SQLite's other errors are subclasses; this class is a damaged file.
        if type(broken.__cause__) is sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                with suppress(OSError):
                    Path(f"{self._path}{suffix}").replace(f"{self._path}{suffix}.broken")


class _Cached[Inner: Embedder | SparseEncoder]:
    def __init__(self, inner: Inner, folder: Path) -> None:
        self.inner, self._cache = inner, VectorCache(folder)

    @property
    def model(self) -> str:
        return self.inner.model

    def warm(self) -> None:
        warm = getattr(self.inner, "warm", None)
        if warm is not None:
            warm()

    def _through[Item: (str, tuple[str, Spans]), Value](
        self,
        kind: str,
        items: Sequence[Item],
        compute: Callable[[list[Item], Deadline | None], Sequence[Value]],
        decode: Callable[[bytes], Value | None],
        deadline: Deadline | None,
    ) -> tuple[Value, ...]:
        before = f"{kind}:{self.model}:"
        keys = [before + text_sha256(str(item)) for item in items]
        entries = {key: decode(value) for key, value in self._cache.get(keys).items()}
        cached = {key: value for key, value in entries.items() if value is not None}
        missing = {key: item for key, item in zip(keys, items, strict=True) if key not in cached}
        # Sorted by length, so that batches need little padding.
        todo = sorted(missing.items(), key=lambda row: (len(str(row[1])), row[0]))
        for part in batched(todo, WRITE_THROUGH):
            if deadline and deadline.is_over():
                raise Timeout("no time was left to encode")
            computed = compute([item for _, item in part], deadline)
            fresh = {key: value for (key, _), value in zip(part, computed, strict=True)}
            self._cache.put({key: _encoded(value) for key, value in fresh.items()})
            cached |= fresh
        return tuple(cached[key] for key in keys)


class CachedEmbedder(_Cached[Embedder]):
    """An `Embedder` with a cache; see `EncoderChoice`."""

    def __init__(
        self,
        inner: Embedder,
        folder: Path,
        others: Callable[[str], Embedder | None] = lambda _: None,
    ) -> None:
        super().__init__(inner, folder)
        self.others = others

    def of(self, model: str) -> Embedder | None:
        """Return the encoder of another vector space, None if not installed."""
        return self.others(model)

    @property
    def dimension(self) -> int:
        """Return the wrapped number of components."""
        return self.inner.dimension

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one vector per text, cached if possible; raise `Timeout`."""
        return self._through("embed", texts, self.inner.embed, self._whole, deadline)

    def embed_questions(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Embed questions, cached if possible and apart if encoded differently; raise `Timeout`."""
        if not isinstance(self.inner, QuestionReader):
            return self.embed(texts, deadline)
        return self._through("asked", texts, self.inner.embed_questions, self._whole, deadline)

    def _whole(self, value: bytes) -> bytes | None:
        return value if len(value) == 4 * self.dimension else None

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Return per text its vector and the packed vectors of its spans, cached if possible."""
        size = 4 * self.dimension

        def compute(rows: list[tuple[str, Spans]], _: Deadline | None) -> list[bytes]:
            embedded = self.inner.embed_parts(
                [text for text, _ in rows], [spans for _, spans in rows]
            )
            return [whole + span_vectors for whole, span_vectors in embedded]

        rows = list(zip(texts, parts, strict=True))
        packed_rows = self._through(f"passage{size}", rows, compute, bytes, None)
        return tuple((row[:size], row[size:]) for row in packed_rows)


class CachedSparseEncoder(_Cached[SparseEncoder]):
    """A `SparseEncoder` with a cache."""

    def encode(
        self, texts: Sequence[str], deadline: Deadline | None
    ) -> tuple[dict[str, float], ...]:
        """Return each passage's weights by token, cached if possible; raise `Timeout`."""
        return self._through("sparse", texts, self.inner.encode, _weights, deadline)

    def encode_query(self, text: str, deadline: Deadline | None) -> dict[str, float]:
        """Return a question's weights by token, cached apart from passages; raise `Timeout`."""

        def compute(texts: list[str], deadline: Deadline | None) -> list[dict[str, float]]:
            return [self.inner.encode_query(texts[0], deadline)]

        return self._through("sparse-query", [text], compute, _weights, deadline)[0]


def _encoded(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return json.dumps(value, separators=(",", ":")).encode()


def _weights(value: bytes) -> dict[str, float] | None:
    try:
        return dict(json.loads(value))
    except (ValueError, TypeError):
        return None
