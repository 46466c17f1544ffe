"""What the graph's step costs in a graph of eleven times the chunks, beside the small one.

    python -m benchmarks.graph_scale STORE SET... [--namespace bench] [--copies 11] [--questions 20]
                                     [--calls 4] [--folder FOLDER]

STORE holds the sets (`python -m benchmarks.http_api build`). Its graph is written again so many
times into one file: a copy's chunks have their own ids; what at least COMMON chunks mention, or a
list brought, is one entity in all copies, so that hubs grow with the graph; a rarer name is the
copy's own. Nothing is encoded and no index is written: the step reads the graph alone. It gets what
retrieval found in STORE, and for the large graph each chunk of that is exchanged for one of its
copies, drawn with a seed. Both graphs are asked in turn; milliseconds are processor time, first of
the first call, when pages are still to be read, then of the best call.
"""

import argparse
import hashlib
import json
import random
import re
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from docstokg_functions.expand import handler as expand_step
from docstokg_functions.retrieve import handler as retrieve_step
from docstokg_functions.validate import handler as validate_step

from benchmarks.graph_step import NAMESPACE, questions
from benchmarks.profile_answer import envelope
from docstokg.adapters.sqlite.graph_schema import TABLES
from docstokg.domain.identity import chunk_key, entity_key
from docstokg.observability import Telemetry
from docstokg.settings import Settings
from docstokg.wiring import Handler, Wiring

COMMON = 3
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Row = dict[str, Any]
State = dict[str, Any]
Copies = dict[str, list[str]]


def digest(*parts: object) -> bytes:
    """Give 16 bytes that depend on the parts alone."""
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=16).digest()


def read(store: sqlite3.Connection, table: str) -> list[Row]:
    """Read a whole table."""
    store.row_factory = sqlite3.Row
    return [dict(row) for row in store.execute(f"SELECT * FROM {table}")]


def write(graph: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    """Write rows; one that is there already stays."""
    for row in rows:
        names, places = ", ".join(row), ", ".join("?" * len(row))
        graph.execute(
            f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({places})",
            tuple(row.values()),
        )


def enlarge(store: Path, large: Path, copies: int, namespace: str) -> Copies:
    """Write the large graph; give the uuids of each chunk's copies, itself first."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as source:
        tables = {
            name: read(source, f"graph_{name}")
            for name in ("meta", "aliases", "entities", "chunks", "mentions", "relations")
        }
    common = {
        row["entity"]
        for row in tables["entities"]
        if row["listed"] or row["open_mentions"] + row["closed_mentions"] >= COMMON
    }
    uuids: Copies = {}
    with closing(sqlite3.connect(large)) as graph:
        graph.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + TABLES)
        write(graph, "graph_meta", tables["meta"])
        write(graph, "graph_aliases", tables["aliases"])
        for number in range(copies):
            chunks: dict[int, int] = {}
            for row in tables["chunks"]:
                name = (
                    row["uuid"] if not number else str(uuid.UUID(bytes=digest(number, row["uuid"])))
                )
                uuids.setdefault(row["uuid"], []).append(name)
                chunks[row["chunk"]] = chunk_key(name)
                own = (
                    {}
                    if not number
                    else {key: f"{row[key]}-{number}" for key in ("chunk_id", "doc_id")}
                )
                write(
                    graph, "graph_chunks", [{**row, **own, "uuid": name, "chunk": chunk_key(name)}]
                )
            keys = _copy_entities(graph, tables["entities"], common, (number, copies, namespace))
            write(
                graph, "graph_mentions",
                ({**row, "entity": keys[row["entity"]], "chunk": chunks[row["chunk"]]}
                 for row in tables["mentions"]),
            )  # fmt: skip
            write(
                graph,
                "graph_relations",
                (
                    {**row, "relation": row["relation"] ^ number} | ends
                    for row in tables["relations"]
                    if (ends := _ends(row, keys, chunks)) or not number
                ),
            )
        graph.commit()
    return uuids


def _ends(row: Row, keys: dict[int, int], chunks: dict[int, int]) -> Row:
    """Give what a copy's relation ties; nothing where the first one's says the same."""
    ends = {"source": keys[row["source"]], "target": keys[row["target"]]}
    if row["evidence"] is None and ends == {end: row[end] for end in ends}:
        return {}
    return {**ends, "evidence": chunks.get(row["evidence"])}


def _copy_entities(
    graph: sqlite3.Connection, rows: Sequence[Row], common: set[int], place: tuple[int, int, str]
) -> dict[int, int]:
    """Write a copy's entities; map each key to the copy's."""
    number, copies, namespace = place
    counts = ("open_mentions", "closed_mentions", "open_heads", "closed_heads")
    keys: dict[int, int] = {}
    for row in rows:
        own: Row = {}
        if row["entity"] in common:
            own = {count: row[count] * copies for count in counts}
        elif number:
            name = f"ent:{digest(number, row['id']).hex()}"
            own = {"id": name, "folded": name, "name": f"{row['name']} {number}"}
            own["entity"] = entity_key(namespace, name)
        keys[row["entity"]] = own["entity"] if "entity" in own else row["entity"]
        write(graph, "graph_entities", [{**row, **own}])
    return keys


def taken(sets: Sequence[Path], count: int) -> list[str]:
    """Take so many questions of each set."""
    return [question for folder in sets for question in questions(folder, count)[0]]


def states(store: Path, sets: Sequence[Path], namespace: str, count: int) -> list[State]:
    """Give what the step gets for each question, with time enough."""
    with closing(_wiring(store, store)) as wiring:
        validate, retrieve = validate_step.build(wiring), retrieve_step.build(wiring)
        made = []
        for number, question in enumerate(taken(sets, count)):
            valid = validate({"envelope": envelope(question, namespace, number)}, None)
            state = {key: part for key, part in valid.items() if part}
            state["retrieval"] = retrieve(state, None)
            state["plan"]["deadline_ms"] += 3_600_000
            made.append({"mode": "expand", **state})
    return made


def exchanged(state: State, uuids: Copies, draw: Callable[[list[str]], str]) -> State:
    """Give the state with a copy in place of each chunk, the same one wherever it stands."""
    chosen: dict[str, str] = {}

    def copy_of(match: re.Match[str]) -> str:
        name = match.group()
        if name in uuids and name not in chosen:
            chosen[name] = draw(uuids[name])
        return chosen.get(name, name)

    return {**state, "retrieval": json.loads(UUID.sub(copy_of, json.dumps(state["retrieval"])))}


def _wiring(index: Path, graph: Path) -> Wiring:
    settings = Settings(
        index_url=f"sqlite:///{index.resolve()}",
        graph_url=f"sqlite:///{graph.resolve()}",
        log_level="ERROR",
    )
    return Wiring(settings, Telemetry(write=lambda line: None))


def compare(
    sides: dict[str, tuple[Handler, list[State]]], calls: int
) -> dict[str, list[list[float]]]:
    """Ask both in turn; give for each question the milliseconds of its calls."""
    took: dict[str, list[list[float]]] = {name: [] for name in sides}
    for number in range(min(len(own) for _, own in sides.values())):
        for name in sides:
            took[name].append([])
        for _ in range(calls):
            for name, (step, own) in sides.items():
                started = time.process_time()
                result = step(own[number], None)
                took[name][-1].append((time.process_time() - started) * 1000)
                if result.get("degraded"):
                    raise SystemExit(f"{name}: {result['degraded']}")
    return took


def report(took: dict[str, list[list[float]]]) -> None:
    """Print p50 of both and their shares."""
    print("| graph | n | first call, CPU ms p50 | best call, CPU ms p50 | of the small one |")
    print("|---|---|---|---|---|")
    base: tuple[float, float] | None = None
    for name, rows in took.items():
        first = statistics.median(row[0] for row in rows)
        best = statistics.median(min(row) for row in rows)
        base = base or (first, best)
        print(
            f"| {name} | {len(rows)} | {first:.1f} | {best:.1f} |"
            f" {first / base[0]:.2f}, {best / base[1]:.2f} |"
        )


def main() -> None:
    """Make the large graph where it is not there, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--namespace", default=NAMESPACE)
    parser.add_argument("--copies", type=int, default=11)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        large, names = folder / "large.sqlite", folder / "copies.json"
        if not names.exists():
            large.unlink(missing_ok=True)
            uuids = enlarge(options.store, large, options.copies, options.namespace)
            names.write_text(json.dumps(uuids))
        uuids = json.loads(names.read_text())
        small_states = states(options.store, options.sets, options.namespace, options.questions)
        draw = random.Random(1).choice
        large_states = [exchanged(state, uuids, draw) for state in small_states]
        with (
            closing(_wiring(options.store, options.store)) as one,
            closing(_wiring(options.store, large)) as two,
        ):
            sides = {
                f"{len(uuids):,} chunks": (expand_step.build(one), small_states),
                f"{sum(map(len, uuids.values())):,} chunks": (expand_step.build(two), large_states),
            }
            report(compare(sides, options.calls))


if __name__ == "__main__":
    main()
