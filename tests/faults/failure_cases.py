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
    """One request to one server.

    `settings` may hold callables of the stores and a folder of the case's own. `broken` breaks
    the stores after the server has started and answered once, or, when `early`, before it starts.
    `given` wraps ports by their name.
    """

    name: str
    body: Body | str
    route: str = "answer"
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
    yield Case("no embedder", question(), settings={"embed_provider": "none"})
    yield Case("another embedder", question(providers={"embedding": "jina"}))
    yield Case("embedder refuses", question(), remote_embedder=True)
    yield Case("embedder hangs", question(), remote_embedder=True, model={"mode": "hang"})
    yield Case("no sparse encoder", question(), settings={"sparse": "none"})
    yield Case(
        "full texts gone",
        question(verbosity="full"),
        ports={
            "search_index": lambda index: Refusing(index, "get", Timeout("the index hung"), after=1)
        },
    )
    rejected = PlanRejected("neighbourhood: a Cartesian product")
    refusing = {"knowledge_graph": lambda graph: Refusing(graph, "slice", rejected)}
    yield Case("plan rejected", question(), ports=refusing)
    routed = question(kg_expansion=SEEDED)
    yield Case("plan rejected, routing", routed, ports=refusing)
    late = Timeout("the graph did not answer in time")
    yield Case(
        "second hop late",
        question(kg_expansion={"hops": 2}),
        ports={"knowledge_graph": lambda graph: Refusing(graph, "slice", late, after=1)},
    )
    yield from _model_failures()
    invalid = {"query": "x", "top_k": 0, "budget": {"max_chunks": 0}, "unknown": 1}
    yield Case("wrong fields", invalid)
    yield Case("no JSON", "{")
    yield Case(
        "the cache is garbage",
        question(cache_key="k"),
        settings={"cache_dir": lambda _, folder: str(_garbage(folder / "cache"))},
    )
    yield Case("no flag agent", question(), settings={"appconfig": "a/b/c"})
    yield Case("no counting table", WALK, "traverse", settings={"tables": ("circuit=circuits",)})


def _embedded_failures() -> Iterator[Case]:
    apart = {"graph_url": lambda store, _: f"sqlite:///{_second(store.path)}"}
    yield Case(
        "index locked",
        HURRIED,
        settings=apart,
        broken=lambda store: _locked(store.path),
        early=True,
    )
    yield Case("vector files deleted", question(), broken=_without_vectors)
    yield Case("fact words dropped", question(), broken=_drop("index_fact%"))
    yield Case("search tables dropped", question(), broken=_without_channels)
    yield Case("index deleted", question(), settings=apart, broken=_deleted)
    yield Case("index overwritten", question(), settings=apart, broken=_overwritten)
    for use, body, route in (
        ("", question(), "answer"),
        (", routing", question(kg_expansion=SEEDED), "answer"),
        (", graph view", question(verbosity="graph"), "answer"),
        (", walk", WALK, "traverse"),
        (", check", {"text": "HP:0001250 is_a HP:0000001."}, "check"),
    ):
        yield Case(f"graph gone{use}", body, route, settings=apart, broken=_second_gone)
    yield Case(
        "graph locked",
        question(),
        settings=apart,
        early=True,
        broken=lambda store: _locked(_second(store.path)),
    )


def _model_failures() -> Iterator[Case]:
    yield Case("reranker asked for, none there", question(providers={"reranker": "local"}))
    yield Case("reranker refuses", question(), remote_reranker=True)
    answer_body = question(**WRITTEN)
    yield Case("verifier refuses", answer_body,
               model={"answer": "Seizures start in the brain [1]."},
               settings={"verifier": f"{CLOSED}/predict"})  # fmt: skip
    hurried = {**answer_body, "budget": {"max_tokens_gen": 300, "timeout_s": 8}}
    yield Case("model hangs", hurried, model={"mode": "hang"})
    yield Case("model is busy", answer_body, model={"mode": "refuse_429"})
    yield Case("model fails", answer_body, model={"mode": "error_500"})
    yield Case("model says nothing", answer_body, model={"mode": "empty"})
    replies = {
        "orphan or malformed markers": "Seizures are abnormal [1]. They last [99].",
        "no valid marker at all": "Seizures are abnormal events of the brain.",
        "abstention": "I don't have information about that in the available documents.",
        "low coverage or unsupported sentences": (
            "Tungsten boils at 5555 degrees. So it is hot. Seizures last [1]."
        ),
    }
    for name, answer in replies.items():
        yield Case(name, answer_body, model={"answer": answer})
    yield Case(
        "uncited, dropped",
        answer_body,
        model={"answer": "Tungsten boils at 5555 degrees. So it is hot."},
        settings={"repair": "drop"},
    )


def remote_embedder(url: str, cache_dir: Path) -> dict[str, Any]:
    """Return settings with a server as embedder in the space of the local one."""
    return {
        "embed_provider": "openai",
        "embed_base_url": (url,),
        "embed_dimension": 384,
        "embed_model": "all-MiniLM-L6-v2-onnx-int8",
        "cache_dir": str(cache_dir),
    }


def remote_reranker(url: str) -> dict[str, str]:
    """Return settings with a server as reranker."""
    return {"rerank_provider": "cohere", "rerank_base_url": url, "rerank_model": "r"}


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
def _locked(store: Path) -> Iterator[None]:
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
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
