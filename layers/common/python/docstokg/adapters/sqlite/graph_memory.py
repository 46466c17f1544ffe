"""What a process has read of an embedded graph: mentions by chunk, rows of entities.

Most of a question's slice is what earlier questions have read, and reading it again from SQLite
costs more than what is then done with it. Nothing here depends on who asks: what a caller may see
is decided afterwards, as it is for rows that were just read.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from docstokg.contracts.graph import SliceMention
from docstokg.domain.graph.neighbourhood import LEAST_MENTIONS, place_weight

MOST_BYTES: Final = 48 * 1024 * 1024
"""Of one process's memory of one file; when it is full, it begins anew."""
MAX_MENTIONS: Final = 20_000
"""Of the opened chunks that a slice looks at."""
CONTENT: Final = "content"
"""Key in `graph_meta` of what every change writes anew: with the same value nothing has changed."""

_ARRAY_BYTES: Final = 200
_ROW_BYTES: Final = 500

Row = tuple[Any, ...]
Run = Callable[..., sqlite3.Cursor]
Columns = NDArray[np.int64]
"""(4, n): entity, start, stop (both -1 where there is none) and 1 where the chunk is about it."""


def note_change(run: Run) -> None:
    """Say, within a transaction that changes the graph, that it holds something else now."""
    run("INSERT OR REPLACE INTO graph_meta VALUES (?, hex(randomblob(8)))", (CONTENT,))


class Recollection:
    """What was read of one content of a file; threads share it, and only add to it."""

    def __init__(self) -> None:
        self._chunks: dict[int, Columns] = {}
        self._rows: dict[int, Row] = {}
        self.bytes = 0

    def columns(self, run: Run, chunks: Sequence[int]) -> list[Columns]:
        """Give the mentions of each chunk, by entity, reading those that are not known yet."""
        missing = [chunk for chunk in chunks if chunk not in self._chunks]
        if missing:
            read = self._read_columns(run, missing)
            self._chunks.update(read)
            self.bytes += sum(made.nbytes + _ARRAY_BYTES for made in read.values())
        return [self._chunks[chunk] for chunk in chunks]

    def rows(
        self, read: Callable[[Sequence[int]], Iterable[Row]], entities: Iterable[int]
    ) -> Mapping[int, Row]:
        """Give rows of entities by key, at least those asked for that the file has."""
        missing = [entity for entity in entities if entity not in self._rows]
        if missing:
            rows = {row[0]: row for row in read(missing)}
            self._rows.update(rows)
            self.bytes += _ROW_BYTES * len(rows)
        return self._rows

    def mentioned(
        self, run: Run, opened: Sequence[int], read: Callable[[Sequence[int]], Iterable[Row]]
    ) -> list[Row]:
        """Give what the opened chunks mention, as `Mentioned`, by entity."""
        parts, left = [], MAX_MENTIONS
        for part in self.columns(run, opened):
            parts.append(part[:, :left])
            left -= parts[-1].shape[1]
        if not parts:
            return []
        weights = np.array([place_weight(place) for place in range(len(parts))], np.int64)
        each = np.repeat(weights, [part.shape[1] for part in parts])
        mentioned, places = np.unique(np.concatenate(parts, axis=1)[0], return_inverse=True)
        # Sums stay far below 2**53, so that the floating point of bincount is exact.
        sums = np.bincount(places, each, len(mentioned)).astype(np.int64).tolist()
        entities = mentioned.tolist()
        rows = self.rows(read, entities)
        return [
            (entity, weight, count, heads)
            for entity, weight in zip(entities, sums, strict=True)
            if (row := rows.get(entity)) is not None
            for count, heads in ((row[7] + row[8], row[9] + row[10] > 0),)
            if count >= LEAST_MENTIONS or heads
        ]

    def among(
        self, run: Run, uuids: Mapping[int, str], names: Mapping[int, str]
    ) -> list[SliceMention]:
        """Give what chunks mention of entities, both by key."""
        parts = self.columns(run, list(uuids))
        if not parts:
            return []
        table = np.concatenate(parts, axis=1)
        places = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
        chosen = np.isin(table[0], np.fromiter(names, np.int64))
        in_order = list(uuids.values())
        return [
            SliceMention(
                in_order[place],
                names[entity],
                start if start >= 0 else None,
                stop if stop >= 0 else None,
                about == 1,
            )
            for place, entity, start, stop, about in zip(
                places[chosen].tolist(), *table[:, chosen].tolist(), strict=True
            )
        ]

    @staticmethod
    def _read_columns(run: Run, chunks: Sequence[int]) -> dict[int, Columns]:
        cursor = run(
            "SELECT m.chunk, m.entity, ifnull(m.start, -1), ifnull(m.stop, -1), m.about"
            " FROM json_each(?) k CROSS JOIN graph_mentions m ON m.chunk = k.value",
            (f"[{','.join(map(str, chunks))}]",),
        )
        table = np.array(cursor.fetchall(), np.int64).reshape(-1, 5).T
        read = dict.fromkeys(chunks, table[1:, :0])
        cuts = np.flatnonzero(np.diff(table[0])) + 1
        starts = [0, *cuts.tolist()] if table.size else []
        for start, stop in zip(starts, [*starts[1:], table.shape[1]], strict=False):
            read[int(table[0, start])] = table[1:, start:stop].copy()
        return read


class GraphMemory:
    """The recollection of a file's present content, none while it changes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._content: str | None = None
        self._recollection: Recollection | None = None

    def of(self, run: Run) -> Recollection | None:
        """Give what is known of the content that a transaction sees.

        None when it is seen for the first time: while a file is loaded, each question sees other
        content, and what it would keep nobody would use. None, too, for a file that was last
        written before changes were noted.
        """
        row = run("SELECT value FROM graph_meta WHERE key = ?", (CONTENT,)).fetchone()
        content = row[0] if row else None
        with self._lock:
            if content is None or content != self._content:
                self._content, self._recollection = content, None
                return None
            if self._recollection is None or self._recollection.bytes > self._most_bytes:
                self._recollection = Recollection()
            return self._recollection
