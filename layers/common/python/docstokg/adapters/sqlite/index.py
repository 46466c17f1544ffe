"""SQLite index reader."""

# ruff: noqa: S608 - names and conditions are constants, values are bound

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from docstokg.adapters.languages import searched
from docstokg.adapters.sqlite.index_files import (
    ArrayFiles,
    Floats,
    Ints,
    LoadLock,
    Rows,
    Section,
    dense_section,
)
from docstokg.adapters.sqlite.index_schema import (
    LANGUAGES,
    RELATIONS,
    SPACE,
    UNFINISHED,
    check_layout,
    fact_words_table,
    known_namespace,
    notes_of,
    space_of,
    stored_chunk,
    visible,
    visible_fact,
    words_table,
)
from docstokg.adapters.sqlite.session import Reading, Sessions
from docstokg.contracts.records import CALLED, IndexInfo, Scope
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, FactHit, Hit, Hydrated
from docstokg.domain.across_namespaces import across, mappings, passages, results
from docstokg.domain.deadline import Deadline
from docstokg.domain.text.language_weights import ENGLISH, counts, shares
from docstokg.domain.text.query_terms import rarity
from docstokg.domain.vectors import unpack
from docstokg.domain.visibility import may_see
from docstokg.errors import DocsToKGError, Timeout, Unavailable

WORKERS = 8
TITLE_WEIGHT = 3.0
HEADINGS_WEIGHT = 2.0
TEXT_WEIGHT = 1.0
WEIGHTS = f"{TITLE_WEIGHT}, {HEADINGS_WEIGHT}, {TEXT_WEIGHT}"
SCAN_ROWS = 16_384
SCORE_DECIMALS = 6
GRACE_S = 0.02
WARM_S = 30.0
READING = Reading("index", check_layout, steps=20_000, cache_kib=16 * 1024, columns=True)

Answer = TypeVar("Answer")
Mask = NDArray[np.bool_]


class SqliteIndex:
    """A `SearchIndex` over one file."""

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._sessions = Sessions(self._path, READING)
        self._arrays = ArrayFiles(self._path)
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="sqlite-index")

    @across(results)
    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, deadline: Deadline
    ) -> tuple[ChannelResult, ...]:
        """Return a result per query, in order; a failing channel is reported in its result.

        Raise `Timeout` or `Unavailable` only if the index cannot be opened. Scores: bm25; dot
        product of sparse and query weights times token rarity in the namespace; cosine.
        """
        if not queries:
            return ()
        started = time.perf_counter()
        context = self._wait(self._workers.submit(self._context_of, scope, deadline), deadline)
        running = [self._workers.submit(self._channel, query, context) for query in queries]
        results = []
        for query, future in zip(queries, running, strict=True):
            try:
                results.append(self._wait(future, deadline))
            except Timeout as exc:
                results.append(_failed(query, exc, (time.perf_counter() - started) * 1000))
        return tuple(results)

    @across(passages)
    def get(self, uuids: Sequence[str], scope: Scope, deadline: Deadline) -> Hydrated:
        """Return the visible chunks among these uuids; others are `missing`."""
        return self._in_worker(lambda: self._read(uuids, scope, deadline), deadline)

    @across(mappings)
    def sentence_vectors(
        self, uuids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> dict[str, bytes]:
        """Map uuids of visible chunks to their packed sentence vectors."""
        columns = "r.uuid, p.vectors FROM index_rows r JOIN index_sentences p ON p.chunk = r.id"
        rows = self._in_worker(
            lambda: self._visible_rows(columns, uuids, scope, deadline), deadline
        )
        return {row["uuid"]: row["vectors"] for row in rows}

    def info(self, deadline: Deadline, refresh: bool = False) -> IndexInfo:
        """Return counts and vector spaces, uncached; raise `NotLoaded` without an index."""
        return self._in_worker(lambda: self._describe(deadline), deadline)

    def generation(self, namespaces: Sequence[str], deadline: Deadline) -> str | None:
        """Return the id of the last `close_load`; raise `NotLoaded` without a file.

        None before the first one, and during a load into `namespaces`.
        """

        def read() -> str | None:
            with self._sessions.use(deadline) as db:
                notes = notes_of(db)
            is_open = any(notes.get(UNFINISHED + name) for name in ("", *namespaces))
            return None if is_open else notes.get("finished")

        return self._in_worker(read, deadline)

    def warm(self) -> None:
        """Open and check the arrays; raise `Unavailable` if they are damaged or missing."""
        deadline = Deadline.after(WARM_S)

        def open_all() -> None:
            with self._sessions.use(deadline) as db:
                generation = notes_of(db).get("generation")
            for name in ("dense", "sparse"):
                if generation is not None:
                    self._arrays.section(name, generation, deadline)

        self._in_worker(open_all, deadline)

    def close(self) -> None:
        """Stop the workers; their connections close too."""
        self._workers.shutdown(cancel_futures=True)

    def _in_worker(self, work: Callable[[], Answer], deadline: Deadline) -> Answer:
        return self._wait(self._workers.submit(work), deadline)

    def _wait(self, future: Future[Answer], deadline: Deadline) -> Answer:
        try:
            return future.result(timeout=deadline.remaining() + GRACE_S)
        except NotYet as exc:
            future.cancel()
            raise Timeout(f"{self._path} did not answer in the time it was given") from exc

    # --- one channel ----------------------------------------------------------------------------

    def _context_of(self, scope: Scope, deadline: Deadline) -> "_SearchContext":
        with self._sessions.use(deadline) as db:
            ns = known_namespace(db, scope.namespace)
            filled = "SELECT EXISTS (SELECT 1 FROM index_rows WHERE ns = ?)"
            notes = notes_of(db)
            space = space_of(notes, scope.namespace)
            return _SearchContext(
                scope=scope,
                deadline=deadline,
                ns=ns,
                filled=ns is not None and bool(db.execute(filled, (ns,)).fetchone()[0]),
                generation=notes.get("generation"),
                embedded=space[0] is not None,
                dense=dense_section(space[1], int(notes.get("dimension") or 0)),
                languages=_others(counts(notes.get(LANGUAGES + scope.namespace))),
            )

    def _channel(self, query: ChannelQuery, context: "_SearchContext") -> ChannelResult:
        started = time.perf_counter()
        try:
            result = self._answer(query, context)
        except DocsToKGError as exc:
            return _failed(query, exc, (time.perf_counter() - started) * 1000)
        return result.model_copy(update={"took_ms": (time.perf_counter() - started) * 1000})

    def _answer(self, query: ChannelQuery, context: "_SearchContext") -> ChannelResult:
        if query.channel == "dense" and not context.embedded:
            raise Unavailable(f"{self._path} was loaded without vectors")
        if context.ns is None or query.size <= 0:
            return ChannelResult(channel=query.channel)
        if query.channel == "facts":
            facts = self._facts(query, context.ns, context)
            return ChannelResult(channel="facts", facts=facts)
        channels = {"bm25": self._words, "splade": self._sparse, "dense": self._dense}
        hits = channels[query.channel](query, context.ns, context)
        return ChannelResult(channel=query.channel, hits=hits)

    def _words(self, query: ChannelQuery, ns: int, context: "_SearchContext") -> tuple[Hit, ...]:
        words = searched(query.text, context.languages)
        if not words:
            return ()
        table = words_table(ns)
        condition, values = visible(context.scope, ns)
        values |= {"words": match_expression(words)}
        order = "" if query.unordered else "ORDER BY score DESC, r.uuid"
        with self._sessions.use(context.deadline) as db:
            rows = db.execute(
                f"SELECT r.uuid, found.score, v.compact, c.doc_id FROM ("
                f"SELECT r.id, r.uuid, -bm25({table}, {WEIGHTS}) AS score FROM {table} "
                f"CROSS JOIN index_rows r ON r.id = {table}.rowid "
                f"WHERE {table} MATCH :words AND {condition} "
                f"{order} LIMIT :size) AS found "
                f"JOIN index_rows r ON r.id = found.id JOIN index_chunks c ON c.id = found.id "
                f"LEFT JOIN index_vectors v ON v.chunk = found.id "
                f"ORDER BY found.score DESC, r.uuid",
                {**values, "size": query.size},
            ).fetchall()
        return tuple(Hit(*row) for row in rows)

    def _sparse(self, query: ChannelQuery, ns: int, context: "_SearchContext") -> tuple[Hit, ...]:
        section = self._section("sparse", context)
        rows = self._rows(section, ns, context)
        if rows is None or not query.weights:
            return ()
        with self._sessions.use(context.deadline) as db:
            tokens = db.execute(
                "SELECT id, token FROM index_tokens "
                "WHERE token IN (SELECT value FROM json_each(?)) ORDER BY id",
                (json.dumps(list(query.weights)),),
            ).fetchall()
        keys, starts = section.arrays["keys"], section.arrays["starts"]
        scores = np.zeros(rows.stop - rows.start, dtype=np.float32)
        token_keys = np.array([ns << 32 | row[0] for row in tokens], dtype=np.int64)
        places = np.searchsorted(keys, token_keys)
        for (_, token), key, place in zip(tokens, token_keys, places, strict=True):
            if context.deadline.is_over():
                raise Timeout("the sparse index did not answer in the time it was given")
            if place < len(keys) and keys[place] == key:
                posting = slice(starts[place], starts[place + 1])
                positions = section.arrays["rows"][posting] - np.int32(rows.start)
                weight = query.weights[token] * rarity(len(positions), len(scores))
                scores[positions] += np.float32(weight) * section.arrays["weights"][posting]
        mask = self._mask(section, rows, ns, context)
        if mask is not None:
            scores[~mask] = 0
        best = best_rows(scores, query.size, floor=0.0)
        return self._hits(rows.ids, scores, best, ns, context)

    def _dense(self, query: ChannelQuery, ns: int, context: "_SearchContext") -> tuple[Hit, ...]:
        section = self._section(context.dense, context)
        rows = self._rows(section, ns, context)
        if rows is None or query.vector is None:
            return ()
        mask = self._mask(section, rows, ns, context)
        scores = _cosines(
            section.arrays["matrix"][rows.start : rows.stop], query.vector, mask, context.deadline
        )
        best = best_rows(scores, query.size, floor=-2.0)
        return self._hits(rows.ids, scores, best, ns, context)

    def _facts(
        self, query: ChannelQuery, ns: int, context: "_SearchContext"
    ) -> tuple[FactHit, ...]:
        condition, values = visible_fact(context.scope, ns)
        columns = "f.fact AS id, f.source, f.type, f.target, f.evidence AS evidence_uuid"
        if query.names:
            columns += ", f.text"
        words = searched(query.text, ())
        if not words:
            return ()
        table = fact_words_table(ns)
        with self._sessions.use(context.deadline) as db:
            matched = db.execute(
                f"SELECT -bm25({table}) AS score, {columns} FROM {table} "
                f"CROSS JOIN index_facts f ON f.id = {table}.rowid "
                f"WHERE {table} MATCH :words AND {condition} AND (f.type = :called) = :names "
                f"ORDER BY score DESC, f.fact LIMIT :size",
                {
                    **values,
                    "words": match_expression(words),
                    "size": query.size,
                    "called": CALLED,
                    "names": query.names,
                },
            ).fetchall()
        return tuple(FactHit(**dict(row)) for row in matched)

    def _section(self, name: str, context: "_SearchContext") -> Section:
        if context.generation is None:
            raise Unavailable(f"no load into {self._path} was ever finished: run it again")
        return self._arrays.section(name, context.generation, context.deadline)

    def _rows(self, section: Section, ns: int, context: "_SearchContext") -> Rows | None:
        rows = section.rows(ns)
        if rows.start < rows.stop:
            return rows
        # Non-English chunks have no sparse weights by design.
        if context.filled and not (context.languages and "keys" in section.arrays):
            raise Unavailable(f"no chunk of namespace {context.scope.namespace!r} can be found so")
        return None

    def _mask(
        self, section: Section, rows: Rows, ns: int, context: "_SearchContext"
    ) -> Mask | None:
        if context.scope.filter or context.scope.doc_ids is not None:
            condition, values = visible(context.scope, ns)
            with self._sessions.use(context.deadline) as db:
                visible_rows = db.execute(
                    f"SELECT r.id FROM index_rows r WHERE {condition}", values
                ).fetchall()
            return np.isin(rows.ids, np.array([row[0] for row in visible_rows], dtype=np.int64))
        if context.scope.groups is not None:
            seen = np.array([may_see(list_, context.scope.groups) for list_ in section.acls])
            return np.asarray(seen[rows.acl], dtype=np.bool_)
        return None

    def _hits(
        self,
        ids: Ints,
        scores: NDArray[np.floating[Any]],
        best: Sequence[int],
        ns: int,
        context: "_SearchContext",
    ) -> tuple[Hit, ...]:
        condition, values = visible(context.scope, ns)
        scores_by_id = {int(ids[place]): float(scores[place]) for place in best}
        values["rows"] = json.dumps(list(scores_by_id))
        # CROSS JOIN: otherwise SQLite scans the whole namespace.
        with self._sessions.use(context.deadline) as db:
            rows = db.execute(
                "SELECT r.id, r.uuid, v.compact, c.doc_id FROM json_each(:rows) AS best "
                "CROSS JOIN index_rows r ON r.id = best.value JOIN index_chunks c ON c.id = r.id "
                f"LEFT JOIN index_vectors v ON v.chunk = r.id WHERE {condition} ORDER BY best.key",
                values,
            ).fetchall()
        return tuple(Hit(row[1], scores_by_id[row[0]], row[2], row[3]) for row in rows)

    # --- reading --------------------------------------------------------------------------------

    def _read(self, uuids: Sequence[str], scope: Scope, deadline: Deadline) -> Hydrated:
        ids = list(dict.fromkeys(uuids))
        joined = "JOIN index_chunks c ON c.id = r.id LEFT JOIN index_vectors v ON v.chunk = r.id"
        rows = self._visible_rows(
            f"r.uuid, c.*, v.compact FROM index_rows r {joined}", ids, scope, deadline
        )
        chunks = {row["uuid"]: stored_chunk(row) for row in rows}
        return Hydrated(chunks=chunks, missing=tuple(uuid for uuid in ids if uuid not in chunks))

    def _visible_rows(
        self, columns: str, uuids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> list[Any]:
        with self._sessions.use(deadline) as db:
            ns = known_namespace(db, scope.namespace)
            if ns is None:
                return []
            condition, values = visible(scope, ns)
            uuid_list = json.dumps(list(uuids))
            return db.execute(
                f"SELECT {columns} WHERE r.uuid IN (SELECT value FROM json_each(:uuids)) "
                f"AND {condition}",
                {**values, "uuids": uuid_list},
            ).fetchall()

    def _describe(self, deadline: Deadline) -> IndexInfo:
        with self._sessions.use(deadline) as db:
            notes = notes_of(db)
            rows = db.execute(
                "SELECT n.name FROM index_namespaces n "
                "WHERE EXISTS (SELECT 1 FROM index_rows WHERE ns = n.id) ORDER BY n.name"
            )
            names = [row[0] for row in rows]
            chunks, facts = notes.get("chunks"), notes.get("facts")
            if chunks is None or facts is None or "dirty" in notes:
                # Counting takes milliseconds, so loads store the counts.
                chunks, facts = db.execute(
                    f"SELECT (SELECT count(*) FROM index_rows), (SELECT count(*) FROM {RELATIONS})"
                ).fetchone()
        dimension = notes.get("dimension")
        unfinished = {
            key.removeprefix(UNFINISHED): run_id
            for key, run_id in notes.items()
            if key.startswith(UNFINISHED)
        }
        return IndexInfo(
            embedding_model=notes.get("embedding_model"),
            dimension=None if dimension is None else int(dimension),
            sparse_model=notes.get("sparse_model"),
            chunks=int(chunks),
            facts=int(facts),
            unfinished=unfinished,
            running=tuple(name for name in unfinished if LoadLock(self._path, name).is_held()),
            namespaces=tuple(names),
            spaces={
                name: (str(model), size)
                for name in names
                if SPACE + name in notes
                for model, size in (space_of(notes, name),)
            },
            languages={
                key.removeprefix(LANGUAGES): shares(languages)
                for key, note in notes.items()
                if key.startswith(LANGUAGES) and _others(languages := counts(note))
            },
        )


class _SearchContext(NamedTuple):
    """`ns`: None for an unknown namespace. `languages`: without English."""

    scope: Scope
    deadline: Deadline
    ns: int | None
    filled: bool
    generation: str | None
    embedded: bool
    dense: str = "dense"
    languages: tuple[str, ...] = ()


def _others(languages: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(code for code in languages if code != ENGLISH)


def _failed(query: ChannelQuery, exc: DocsToKGError, took_ms: float) -> ChannelResult:
    return ChannelResult(
        channel=query.channel,
        failure="timeout" if isinstance(exc, Timeout) else "unavailable",
        took_ms=took_ms,
        cause=str(exc),
    )


def match_expression(words: Sequence[str]) -> str:
    """Return an FTS5 expression of quoted words joined by OR, without query operators."""
    return " OR ".join(f'"{word}"' for word in words)


def _cosines(matrix: Floats, vector: bytes, mask: Mask | None, deadline: Deadline) -> Floats:
    """Rounded, so that equal vectors score equally in any block; masked rows score -2."""
    query = unpack(vector)
    if len(query) != matrix.shape[1]:
        raise Unavailable(f"the question has {len(query)} components, the index {matrix.shape[1]}")
    scores = np.full(len(matrix), -2.0, dtype=np.float32)
    places = None if mask is None else np.flatnonzero(mask)
    total = len(matrix) if places is None else len(places)
    for start in range(0, total, SCAN_ROWS):
        if deadline.is_over():
            raise Timeout("the vectors could not be compared in the time there was")
        if places is None:
            block: Any = slice(start, start + SCAN_ROWS)
        else:
            block = places[start : start + SCAN_ROWS]
        # Half the time of a matrix product, without BLAS threads.
        scores[block] = np.round(np.vecdot(matrix[block], query), SCORE_DECIMALS)
    return scores


def best_rows(scores: Floats, size: int, floor: float) -> list[int]:
    """Return the positions of the `size` (from 1) highest scores above `floor`, best first.

    Ties are in order of position.
    """
    places = np.flatnonzero(scores > floor)
    if len(places) > size:
        cutoff = np.partition(scores[places], len(places) - size)[len(places) - size]
        places = places[scores[places] >= cutoff]
    order = np.argsort(-scores[places], kind="stable")[:size]
    return [int(place) for place in places[order]]
