"""Encoders take hours for what a disk returns in seconds: vectors kept under their text's hash."""

import hashlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import batched
from pathlib import Path

from docstokg.adapters.sqlite.session import Owner, opened, translated
from docstokg.errors import Timeout
from docstokg.ports import Embedder, Parts, QuestionReader, Spans, SparseEncoder

FILE = "vectors.sqlite"
BUSY_MS = 100
WRITE_THROUGH = 128
TTL_S = 90 * 86400.0

_log = logging.getLogger(__name__)


class VectorCache:
    """A SQLite file under `folder`: `embed:{model}:{sha256(text)}` -> bytes, with a time to live.

    It may be shared by processes. Nothing it meets fails a call: an unreadable, locked or full
    cache finds nothing and keeps nothing, and a file that is no database is put aside.
    """

    def __init__(self, folder: Path, ttl_s: float = TTL_S) -> None:
        self._path = folder / FILE
        self._ttl_s = ttl_s
        self._local = threading.local()

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Find what is cached and not expired."""
        try:
            rows = self._connection().execute(
                "SELECT key, value FROM vectors "
                "WHERE key IN (SELECT value FROM json_each(?)) AND expires > ?",
                (json.dumps(list(keys)), time.time()),
            )
            return dict(rows.fetchall())
        except (sqlite3.Error, OSError) as broken:
            self._give_up("read", broken)
            return {}

    def put(self, values: Mapping[str, bytes]) -> None:
        """Keep values for the time to live."""
        expires = time.time() + self._ttl_s
        try:
            with self._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("DELETE FROM vectors WHERE expires <= ?", (time.time(),))
                connection.executemany(
                    "INSERT OR REPLACE INTO vectors (key, value, expires) VALUES (?, ?, ?)",
                    [(key, value, expires) for key, value in sorted(values.items())],
                )
        except (sqlite3.Error, OSError) as broken:
            self._give_up("written", broken)

    def _connection(self) -> sqlite3.Connection:
        owner: Owner | None = getattr(self._local, "owner", None)
        if owner is not None:
            return owner.connection
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = opened(self._path, BUSY_MS / 1000)
        try:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors "
                "(key TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL NOT NULL) WITHOUT ROWID"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS expiring ON vectors (expires)")
        except sqlite3.Error:
            connection.close()
            raise
        self._local.owner = Owner(connection)
        return connection

    def _give_up(self, verb: str, broken: Exception) -> None:
        # A lock passes by itself, and nobody has to do anything about it.
        locked = isinstance(broken, sqlite3.Error) and isinstance(translated(broken, ""), Timeout)
        level = logging.DEBUG if locked else logging.WARNING
        _log.log(level, "vector cache %s could not be %s: %s", self._path, verb, broken)
        self._local.owner = None
        # Busy, full and read-only are OperationalErrors and pass; any other is a broken file.
        if isinstance(broken, sqlite3.DatabaseError) and not isinstance(
            broken, sqlite3.OperationalError
        ):
            for suffix in ("", "-wal", "-shm"):
                try:
                    Path(f"{self._path}{suffix}").replace(f"{self._path}{suffix}.broken")
                except OSError as stuck:
                    _log.debug("%s%s stays: %s", self._path, suffix, stuck)


class _Cached[Inner: Embedder | SparseEncoder]:
    """What computes, behind the cache of its results."""

    def __init__(self, inner: Inner, folder: Path) -> None:
        self.inner, self._cache = inner, VectorCache(folder)

    @property
    def model(self) -> str:
        """Name the wrapped vector space, vocabulary or recogniser."""
        return self.inner.model

    def warm(self) -> None:
        """Load the wrapped model where it has something to load."""
        warm = getattr(self.inner, "warm", None)
        if warm is not None:
            warm()

    def _through[Value](
        self,
        kind: str,
        texts: Sequence[str],
        compute: Callable[[list[str], float | None], Sequence[Value]],
        read: Callable[[bytes], Value | None],
        timeout_s: float | None,
    ) -> tuple[Value, ...]:
        """Compute each text that the cache does not hold once; what is done by a `Timeout` stays.

        `read` gives None for an entry that is made anew.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        # Asked once: a recogniser looks its version up in what is installed.
        before = f"{kind}:{self.model}:"
        keys = [before + _digest(text) for text in texts]
        entries = {key: read(value) for key, value in self._cache.get(keys).items()}
        known = {key: value for key, value in entries.items() if value is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        # Shortest first, so that batches are of even length.
        todo = sorted(missing.items(), key=lambda item: (len(item[1]), item[0]))
        for part in batched(todo, WRITE_THROUGH, strict=False):
            made = compute([text for _, text in part], _left(deadline))
            fresh = {key: value for (key, _), value in zip(part, made, strict=True)}
            self._cache.put({key: _written(value) for key, value in fresh.items()})
            known |= fresh
        return tuple(known[key] for key in keys)


class CachedEmbedder(_Cached[Embedder]):
    """An `Embedder` that computes only what the cache does not hold; see `EncoderChoice`."""

    def __init__(
        self,
        inner: Embedder,
        folder: Path,
        others: Callable[[str], Embedder | None] = lambda _: None,
    ) -> None:
        super().__init__(inner, folder)
        self.others = others

    def of(self, model: str) -> Embedder | None:
        """Give the encoder of another space."""
        return self.others(model)

    @property
    def dimension(self) -> int:
        """Give the wrapped number of components."""
        return self.inner.dimension

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Return one vector per text; what was computed before a `Timeout` is kept."""
        return self._through("embed", texts, self.inner.embed, self._whole, timeout_s)

    def embed_questions(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Return one vector per question, kept apart where the encoder reads them otherwise."""
        if not isinstance(self.inner, QuestionReader):
            return self.embed(texts, timeout_s)
        return self._through("asked", texts, self.inner.embed_questions, self._whole, timeout_s)

    def _whole(self, value: bytes) -> bytes | None:
        return value if len(value) == 4 * self.dimension else None

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Compute the texts whose stretches are not cached; both stay, stretches beside texts."""
        keys = [f"embed:{self.model}:{_digest(text)}" for text in texts]
        marks = [
            f"parts:{self.model}:{_digest(f'{list(spans)}{text}')}"
            for text, spans in zip(texts, parts, strict=True)
        ]
        vectors, size = self._cache.get([*keys, *marks]), self.dimension
        todo = {
            mark: (key, text, spans)
            for key, mark, text, spans in zip(keys, marks, texts, parts, strict=True)
            if len(vectors.get(key, b"")) != 4 * size
            or len(vectors.get(mark, b"")) != len(spans) * ((size + 1) // 2)
        }
        rows = sorted(todo.items(), key=lambda item: (len(item[1][1]), item[0]))
        for part in batched(rows, WRITE_THROUGH, strict=False):
            made = self.inner.embed_parts([row[1][1] for row in part], [row[1][2] for row in part])
            fresh: dict[str, bytes] = {}
            for (mark, (key, _, _)), (whole, own) in zip(part, made, strict=True):
                fresh |= {key: whole, mark: own}
            self._cache.put(fresh)
            vectors.update(fresh)
        return tuple(
            (vectors[key], vectors.get(mark, b"")) for key, mark in zip(keys, marks, strict=True)
        )


class CachedSparseEncoder(_Cached[SparseEncoder]):
    """A `SparseEncoder` that computes only what the cache does not hold."""

    def encode(self, texts: Sequence[str], timeout_s: float | None) -> tuple[dict[str, float], ...]:
        """Return one map per passage; what was computed before a `Timeout` is kept."""
        return self._through("sparse", texts, self.inner.encode, _weights, timeout_s)

    def encode_query(self, text: str, timeout_s: float | None) -> dict[str, float]:
        """Return the weights of a question."""

        def compute(texts: list[str], left_s: float | None) -> list[dict[str, float]]:
            return [self.inner.encode_query(texts[0], left_s)]

        return self._through("sparse-query", [text], compute, _weights, timeout_s)[0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _left(deadline: float | None) -> float | None:
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise Timeout("no time was left to encode")
    return left


def _written(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return json.dumps(value, separators=(",", ":")).encode()


def _weights(value: bytes) -> dict[str, float] | None:
    try:
        return {str(k): float(v) for k, v in json.loads(value).items()}
    except (ValueError, AttributeError) as broken:
        _log.warning("a cached map of weights is not readable: %s", broken)
        return None
