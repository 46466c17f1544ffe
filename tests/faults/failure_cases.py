"""Requests with one failure after the other: each one that a single machine can bring about.

A failure is made, not mocked: files are deleted, locked and overwritten, and servers refuse, hang
and talk nonsense. Embedded stores are broken on a copy of the file.
"""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docstokg.errors import PlanRejected, Timeout

CLOSED = "http://127.0.0.1:9"
QUESTION = "What are the phenotypic abnormalities associated with HP:0001250?"
WRITTEN = {"synthesis": {"enabled": True}, "budget": {"max_tokens_gen": 300, "timeout_s": 20}}

ROWS = (
    "deadline passes", "vector index missing", "embedder down", "one channel errors or is slow",
    "all channels fail", "retrieval works, hydration fails", "graph down, slow, or plan rejected",
    "2-hop slow", "reranker down",
    "verifier down, late or lying", "LLM timeout / 429 / error", "orphan or malformed markers",
    "no valid marker at all", "abstention", "low coverage or unsupported sentences",
    "invalid request", "cache, flag, circuit or trace store down",
)  # fmt: skip
"""What may fail, in the order of the contract."""

Body = dict[str, Any]
Break = Callable[[Any], AbstractContextManager[object]]


@dataclass(frozen=True)
class Embedded:
    """Stores in one file; a case may break it when it is a copy of its own."""

    path: Path

    def settings(self) -> dict[str, str]:
        """Return the settings with which a server reaches the stores."""
        return {"index_url": f"sqlite:///{self.path}", "graph_url": f"sqlite:///{self.path}"}


@dataclass(frozen=True)
class Case:
    """One request to one server; `row` names what is broken.

    `settings` may hold callables of the stores and a folder of the case's own. `broken` breaks
    the stores after the server has started and answered once, or, when `early`, before it starts.
    `given` wraps ports by their name.
    """

    name: str
    body: Body | str
    route: str = "answer"
    row: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    broken: Break | None = None
    early: bool = False
    ports: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    model: dict[str, Any] | None = None
    remote_reranker: bool = False
    remote_embedder: bool = False


def question(text: str = QUESTION, **fields: Any) -> Body:
    """A request with time enough on a busy machine."""
    return {"query": text, "budget": {"timeout_s": 20}, **fields}


SEEDED = {"seeds": ["HP:0001250"], "route": True}
WALK = {"seed_ids": ["HP:0001250"], "query": "seizures"}
HURRIED = {"query": QUESTION, "budget": {"timeout_s": 2}}


def failure_cases() -> list[Case]:
    """Every failure that must cost only a part, as far as one machine can bring it about."""
    return [*_embedded_failures(), *_other_failures()]


def _other_failures() -> Iterator[Case]:
    """Failures that are made in the same way whatever the stores are."""
    row = "embedder down"
    yield Case("no embedder", question(), row=row, settings={"embed_provider": "none"})
    yield Case("another embedder", question(providers={"embedding": "jina"}), row=row)
    yield Case("embedder refuses", question(), row=row, remote_embedder=True)
    yield Case("embedder hangs", question(), row=row, remote_embedder=True, model={"mode": "hang"})
    row = "one channel errors or is slow"
    yield Case("no sparse encoder", question(), row=row, settings={"sparse": "none"})
    row = "retrieval works, hydration fails"
    yield Case(
        "full texts gone",
        question(verbosity="full"),
        row=row,
        ports={
            "search_index": lambda index: Refusing(index, "get", Timeout("the index hung"), after=1)
        },
    )
    row = "graph down, slow, or plan rejected"
    rejected = PlanRejected("neighbourhood: a Cartesian product")
    refusing = {"knowledge_graph": lambda graph: Refusing(graph, "slice", rejected)}
    yield Case("plan rejected", question(), row=row, ports=refusing)
    routed = question(kg_expansion=SEEDED)
    yield Case("plan rejected, routing", routed, row=row, ports=refusing)
    late = Timeout("the graph did not answer in time")
    yield Case(
        "second hop late",
        question(kg_expansion={"hops": 2}),
        row="2-hop slow",
        ports={"knowledge_graph": lambda graph: Refusing(graph, "slice", late, after=1)},
    )
    yield from _model_failures()
    invalid = {"query": "x", "top_k": 0, "budget": {"max_chunks": 0}, "unknown": 1}
    yield Case("wrong fields", invalid, row="invalid request")
    yield Case("no JSON", "{", row="invalid request")
    row = "cache, flag, circuit or trace store down"
    yield Case(
        "the cache is garbage",
        question(cache_key="k"),
        row=row,
        settings={"cache_dir": lambda _, folder: str(_garbage(folder / "cache"))},
    )
    yield Case("no flag agent", question(), row=row, settings={"appconfig": "a/b/c"})
    yield Case(
        "no counting table", WALK, "traverse", row=row, settings={"tables": ("circuit=circuits",)}
    )


def _embedded_failures() -> Iterator[Case]:
    apart = {"graph_url": lambda store, _: f"sqlite:///{_second(store.path)}"}
    yield Case(
        "index locked",
        HURRIED,
        row="deadline passes",
        settings=apart,
        broken=lambda store: _locked(store.path, "EXCLUSIVE"),
        early=True,
    )
    row = "vector index missing"
    yield Case("vector files deleted", question(), row=row, broken=_without_vectors)
    row = "one channel errors or is slow"
    yield Case("fact words dropped", question(), row=row, broken=_drop("index_fact%"))
    row = "all channels fail"
    yield Case("search tables dropped", question(), row=row, broken=_without_channels)
    row = "retrieval works, hydration fails"
    yield Case("index deleted", question(), row=row, settings=apart, broken=_deleted)
    yield Case("index overwritten", question(), row=row, settings=apart, broken=_overwritten)
    yield from without_graph("graph gone", apart, _second_gone)
    row = "graph down, slow, or plan rejected"
    yield Case(
        "graph locked",
        question(),
        row=row,
        settings=apart,
        early=True,
        broken=lambda store: _locked(_second(store.path), "EXCLUSIVE"),
    )
    yield Case(
        "traces cannot be written",
        question(),
        row=ROWS[-1],
        settings={"traces": "local"},
        early=True,
        broken=lambda store: _locked(store.path, "IMMEDIATE"),
    )


def without_graph(name: str, settings: dict[str, Any], broken: Break) -> Iterator[Case]:
    """Every use of a graph that `broken` takes away."""
    for use, body, route in (
        ("", question(), "answer"),
        (", routing", question(kg_expansion=SEEDED), "answer"),
        (", graph view", question(verbosity="graph"), "answer"),
        (", walk", WALK, "traverse"),
        (", check", {"text": "HP:0001250 is_a HP:0000001."}, "check"),
    ):
        row = "graph down, slow, or plan rejected"
        yield Case(f"{name}{use}", body, route, row=row, settings=settings, broken=broken)


def _model_failures() -> Iterator[Case]:
    row = "reranker down"
    yield Case("reranker asked for, none there", question(providers={"reranker": "local"}), row=row)
    yield Case("reranker refuses", question(), row=row, remote_reranker=True)
    answer_body = question(**WRITTEN)
    yield Case("verifier refuses", answer_body, row="verifier down, late or lying",
               model={"answer": "Seizures start in the brain [1]."},
               settings={"verifier": f"{CLOSED}/predict"})  # fmt: skip
    row = "LLM timeout / 429 / error"
    hurried = {**answer_body, "budget": {"max_tokens_gen": 300, "timeout_s": 8}}
    yield Case("model hangs", hurried, row=row, model={"mode": "hang"})
    yield Case("model is busy", answer_body, row=row, model={"mode": "refuse_429"})
    yield Case("model fails", answer_body, row=row, model={"mode": "error_500"})
    yield Case("model says nothing", answer_body, row=row, model={"mode": "empty"})
    replies = {
        "orphan or malformed markers": "Seizures are abnormal [1]. They last [99].",
        "no valid marker at all": "Seizures are abnormal events of the brain.",
        "abstention": "I don't have information about that in the available documents.",
        "low coverage or unsupported sentences": (
            "Tungsten boils at 5555 degrees. So it is hot. Seizures last [1]."
        ),
    }
    for row, answer in replies.items():
        yield Case(row, answer_body, row=row, model={"answer": answer})
    yield Case(
        "uncited, dropped",
        answer_body,
        row=row,
        model={"answer": "Tungsten boils at 5555 degrees. So it is hot."},
        settings={"repair": "drop"},
    )


class Refusing:
    """A port whose method raises from its `after`-th call on; everything else is the port's own.

    Calls count once it is `armed`: a server may be warmed up before.
    """

    def __init__(self, port: Any, method: str, error: Exception, after: int = 0) -> None:
        self._port, self._method, self._error, self._left = port, method, error, after
        self.armed = False

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        if name != self._method:
            return attribute

        def refused(*arguments: Any) -> Any:
            self._left -= self.armed
            if self._left < 0:
                raise self._error
            return attribute(*arguments)

        return refused


def _second(store: Path) -> Path:
    """A copy of the file for the graph, so that index and graph fail apart."""
    copy = store.with_name("graph.sqlite")
    if not copy.exists():
        shutil.copy(store, copy)
    return copy


def _garbage(folder: Path) -> Path:
    folder.mkdir()
    (folder / "responses.sqlite").write_bytes(b"garbage" * 1000)
    return folder


def _arrays(store: Path) -> list[Path]:
    return [path for path in store.parent.glob(store.name + "*") if path != store]


@contextmanager
def _locked(store: Path, how: str) -> Iterator[None]:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        if how == "EXCLUSIVE":
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute(f"BEGIN {how}")
        yield


def _without_vectors(store: Embedded) -> AbstractContextManager[object]:
    shutil.rmtree(store.path.with_name(store.path.name + ".d"))
    return nullcontext()


def _drop(pattern: str) -> Break:
    def broken(store: Embedded) -> AbstractContextManager[object]:
        with closing(sqlite3.connect(store.path)) as connection:
            chosen = "type = 'table' AND name LIKE ? AND sql LIKE '%fts5%'"
            tables = connection.execute(
                f"SELECT name FROM sqlite_master WHERE {chosen}", (pattern,)
            ).fetchall()
            for (table,) in tables:
                connection.execute(f"DROP TABLE {table}")
        assert tables
        return nullcontext()

    return broken


def _without_channels(store: Embedded) -> AbstractContextManager[object]:
    _drop("index_%")(store)
    return _without_vectors(store)


def _deleted(store: Embedded) -> AbstractContextManager[object]:
    for path in [store.path, *_arrays(store.path)]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return nullcontext()


def _overwritten(store: Embedded) -> AbstractContextManager[object]:
    store.path.write_bytes(b"not a database" * 1000)
    return nullcontext()


def _second_gone(store: Embedded) -> AbstractContextManager[object]:
    return _deleted(Embedded(_second(store.path)))
