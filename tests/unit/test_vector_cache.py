"""The cache of vectors: it saves work, and nothing it meets fails a call."""

import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from docstokg.adapters.sqlite.vector_cache import CachedEmbedder, VectorCache
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack, packed
from docstokg.errors import Timeout
from docstokg.ports import Spans


class CountingEncoder:
    """Counts the texts it computes."""

    model = "counting"
    dimension = 2

    def __init__(self, fail_after: int | None = None) -> None:
        self.computed: list[str] = []
        self.fail_after = fail_after

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        if self.fail_after is not None and len(self.computed) >= self.fail_after:
            raise Timeout("too slow")
        self.computed += texts
        return tuple(pack([1.0, float(len(text))]) for text in texts)

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Spans]
    ) -> tuple[tuple[bytes, bytes], ...]:
        whole = self.embed(texts, None)
        return tuple(
            (vector, packed([pack([float(a + 1), float(b)]) for a, b in spans]))
            for vector, spans in zip(whole, parts, strict=True)
        )


TEXTS = ["b", "aa", "", "b", "é" * 5, "\ud800"]


def test_texts_are_computed_once(tmp_path: Path) -> None:
    inner = CountingEncoder()
    cached = CachedEmbedder(inner, tmp_path)
    expected = CountingEncoder().embed(TEXTS, None)
    assert cached.embed(TEXTS, None) == expected
    assert sorted(inner.computed) == sorted(set(TEXTS))
    again = CountingEncoder()
    assert CachedEmbedder(again, tmp_path).embed(TEXTS, Deadline.after(30.0)) == expected
    assert again.computed == []
    assert (cached.model, cached.dimension) == ("counting", 2)


def test_stretches_are_computed_with_their_text_and_once(tmp_path: Path) -> None:
    texts, parts = ["one two", "three", "", "one two"], [[(0, 3), (4, 7)], [(0, 5)], [], [(0, 7)]]
    inner = CountingEncoder()
    cached = CachedEmbedder(inner, tmp_path)
    cached.embed(texts[:1], None)
    expected = CountingEncoder().embed_parts(texts, parts)
    assert cached.embed_parts(texts, parts) == expected
    # Known vectors of whole texts do not stand for their stretches; other stretches are others.
    assert sorted(inner.computed) == sorted([*texts, texts[0]])
    again = CountingEncoder()
    assert CachedEmbedder(again, tmp_path).embed_parts(texts, parts) == expected
    assert again.computed == []


def test_results_before_a_timeout_are_cached(tmp_path: Path) -> None:
    texts = [f"text {i:03d}" for i in range(200)]
    with pytest.raises(Timeout):
        CachedEmbedder(CountingEncoder(fail_after=100), tmp_path).embed(texts, Deadline.after(60.0))
    again = CountingEncoder()
    CachedEmbedder(again, tmp_path).embed(texts, None)
    assert 0 < len(again.computed) < 100


def test_entries_expire(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, ttl_s=0.01)
    cache.put({"a": b"1"})
    time.sleep(0.02)
    assert cache.get(["a"]) == {}
    cache.put({"b": b"2"})
    rows = sqlite3.connect(tmp_path / "vectors.sqlite")
    assert [key for (key,) in rows.execute("SELECT key FROM vectors")] == ["b"]
    rows.close()


def test_files_that_are_no_database_are_put_aside(tmp_path: Path) -> None:
    (tmp_path / "vectors.sqlite").write_bytes(b"garbage " * 2000)
    inner = CountingEncoder()
    cached = CachedEmbedder(inner, tmp_path)
    for _ in range(3):
        assert cached.embed(["x"], None) == (pack([1.0, 1.0]),)
    assert (tmp_path / "vectors.sqlite.broken").read_bytes().startswith(b"garbage")
    assert len(inner.computed) < 3, "a new cache takes over"


def test_a_lock_passes_and_nobody_is_told(tmp_path: Path, caplog) -> None:
    cached = CachedEmbedder(CountingEncoder(), tmp_path)
    cached.embed(["one"], None)
    other = sqlite3.connect(tmp_path / "vectors.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert len(cached.embed(["one", "two"], None)) == 2
    assert not caplog.records
    other.close()


def test_the_entries_that_expire_first_make_room(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, most_bytes=1 << 20)
    for number in range(20):
        cache.put({f"{number:02d}/{part}": bytes(20_000) for part in range(5)})
    entries = cache.get([f"{number:02d}/{part}" for number in range(20) for part in range(5)])
    assert 20 < len(entries) < 60
    assert {f"19/{part}" for part in range(5)} <= entries.keys()
    assert (tmp_path / "vectors.sqlite").stat().st_size < 2 << 20
