"""What a question's words score in an FTS5 table, kept in memory word by word.

BM25 of several words is the sum of what each scores alone, in their order and to the last bit:
SQLite adds one after another. So a word that was asked before is not looked up again, and ties at
the cut need no second look at every row that matches.
"""

# ruff: noqa: S608 - names of tables and weights are written in adapters, values are bound

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 32 << 20
"""Of the words of all tables; 10,000 chunks of 100 words have about 15 MB, when all are asked."""
MOST_ROWS = 30_000
"""Of one word: fetching more takes longer than letting SQLite add."""
MOST_SPAN = 1 << 18
"""Between the lowest and the highest row id, for which room is made at every question."""

_AVERAGES, _STRUCTURE = 1, 10
"""Records of an FTS5 table's own: how much it holds, and its parts with a count of writes."""


class WordTable(NamedTuple):
    """An FTS5 table, what `bm25` is given for its columns, and the load it stands after."""

    name: str
    weights: str
    generation: str | None


class _Word(NamedTuple):
    """Rows that hold a word, rising, and their scores; None when there are too many."""

    state: tuple[object, ...]
    rows: NDArray[np.int64] | None
    scores: NDArray[np.float64]

    def size(self) -> int:
        """Count bytes."""
        return 200 + (0 if self.rows is None else self.rows.nbytes + self.scores.nbytes)


class WordScores:
    """Scores by table and word, those used last, for as long as the table is not written."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_rows: int = MOST_ROWS) -> None:
        self._most_bytes, self._most_rows = most_bytes, most_rows
        self._lock = threading.Lock()
        self._words: OrderedDict[tuple[str, str], _Word] = OrderedDict()
        self._bytes = 0

    def held_bytes(self) -> int:
        """Count what is kept."""
        return self._bytes

    def best(
        self, db: sqlite3.Connection, table: WordTable, words: Sequence[str], size: int
    ) -> dict[int, float] | None:
        """Give the rows of the `size` highest scores, and all that equal the last of these.

        None when this is SQLite's work: a word is in too many rows, or too many are equal.
        """
        held = self._held(db, table, words)
        if held is None:
            return None
        if not held:
            return {}
        first = min(int(rows[0]) for rows, _ in held)
        span = max(int(rows[-1]) for rows, _ in held) + 1 - first
        if span > MOST_SPAN:
            return None
        total = np.zeros(span)
        for rows, scores in held:
            total[rows - first] += scores
        # Every word adds something to its rows: FTS5 gives no rarity below a millionth.
        places = np.flatnonzero(total)
        if len(places) > size:
            least = np.partition(total[places], len(places) - size)[len(places) - size]
            places = places[total[places] >= least]
            if len(places) > 2 * size:
                return None
        return dict(zip((places + first).tolist(), total[places].tolist(), strict=True))

    def _held(
        self, db: sqlite3.Connection, table: WordTable, words: Sequence[str]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]] | None:
        """Give rows and scores of each word that is anywhere."""
        written = db.execute(
            f"SELECT block FROM {table.name}_data WHERE id IN (?, ?) ORDER BY id",
            (_AVERAGES, _STRUCTURE),
        ).fetchall()
        # Read before the words are: what is written meanwhile is then held under an old state.
        state = (table.generation, *(row[0] for row in written))
        by_word = {word: self._word_in_memory(table.name, word, state) for word in words}
        if any(own is not None and own.rows is None for own in by_word.values()):
            return None
        held = []
        for word in words:
            holders = by_word[word] or self._read(db, table, word, state)
            if holders.rows is None:
                return None
            if len(holders.rows):
                held.append((holders.rows, holders.scores))
        return held

    def _word_in_memory(self, table: str, word: str, state: tuple[object, ...]) -> _Word | None:
        with self._lock:
            own = self._words.get((table, word))
            if own is None or own.state != state:
                return None
            self._words.move_to_end((table, word))
            return own

    def _read(
        self, db: sqlite3.Connection, table: WordTable, word: str, state: tuple[object, ...]
    ) -> _Word:
        name = table.name
        score = f"-bm25({', '.join(part for part in (name, table.weights) if part)})"
        read = db.execute(
            f"SELECT rowid, {score} FROM {name} WHERE {name} MATCH ? LIMIT ?",
            (quoted(word), self._most_rows + 1),
        ).fetchall()
        few = len(read) <= self._most_rows
        own = _Word(
            state,
            np.array([row[0] for row in read], dtype=np.int64) if few else None,
            np.array([row[1] for row in read] if few else [], dtype=np.float64),
        )
        with self._lock:
            before = self._words.pop((name, word), None)
            self._bytes += own.size() - (before.size() if before is not None else 0)
            self._words[name, word] = own
            while self._bytes > self._most_bytes:
                _, oldest = self._words.popitem(last=False)
                self._bytes -= oldest.size()
        return own


def quoted(word: str) -> str:
    """Write a word so that FTS5 reads no operator in it."""
    return f'"{word}"'
