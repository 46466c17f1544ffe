"""A real OpenSearch and a real Neo4j that recordings ask, and every failure they can be given."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.request import Request, urlopen

from benchmarks.load_stores import CACHE, Real
from benchmarks.recorded_cases import (
    HURRIED,
    ROWS,
    Case,
    anywhere,
    in_order,
    question,
    without_graph,
)
from docstokg.contracts.records import Scope
from docstokg.errors import DocsToKGError
from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from docstokg_local.services import servers as services
from docstokg_local.services.servers import Which

BARE = "bare"
"""Of an index that was loaded without vectors."""


class Servers:
    """Both servers, reached through a proxy each that a case may make misbehave."""

    def __init__(self, real: Real) -> None:
        self.real = real

    @classmethod
    @contextmanager
    def at(cls, home: Path, *, end: bool) -> Iterator[Self]:
        """Start what does not run in `home`; leave both running, or end them."""
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o755)  # OpenSearch runs as an account of its own
        with ExitStack() as stack:
            real = Real(
                home,
                {
                    which: services.start(
                        which, home / which, cache=CACHE, port=services.free_port()
                    )
                    for which in Which
                },
            )
            stack.callback(real.close if end else real.let_go)
            yield cls(real)

    def settings(self) -> dict[str, str]:
        """Give what a server needs to reach them through the proxies."""
        return _settings(self.real.through_proxies())

    def load(self, folder: Path, namespace: str, *, without_vectors: bool = False) -> None:
        """Load a folder unless the index holds something of its namespace.

        `without_vectors`: into an index of its own, beside a graph that nobody asks.
        """
        values = _settings(self.real.environment())
        if without_vectors:
            values |= {"index_name": BARE, "graph_url": f"sqlite:///{self.real.home / BARE}.sqlite"}
        wiring = Wiring(Settings(**values))
        try:
            if _holds(wiring, namespace):
                return
            options = LoadOptions(namespace=namespace, embed=not without_vectors)
            stores = stores_of(wiring, not without_vectors)
            done = load([folder], options, stores, RejectLog(None))
            print(f"{done.chunks} chunks of {folder} loaded", flush=True)
        finally:
            wiring.close()


def _settings(environment: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("DOCSTOKG_").lower(): text for name, text in environment.items()}


def _holds(wiring: Wiring, namespace: str) -> bool:
    from docstokg.contracts.retrieval import ChannelQuery

    words = ChannelQuery(channel="bm25", size=1, text="the of a seizure film")
    try:
        (result,) = wiring.search_index().search([words], Scope(namespace=namespace), 20.0)
    except DocsToKGError:
        return False
    return bool(result.hits)


def real_failure_cases() -> list[Case]:
    """Every failure that must cost only a part, where the stores are servers."""
    return in_order([*_server_failures(), *anywhere()])


def _server_failures() -> Iterator[Case]:
    opensearch, neo4j = Which.OPENSEARCH, Which.NEO4J
    yield Case("index hangs", HURRIED, row=ROWS[0], broken=_stopped(opensearch))
    without = {"index_name": BARE}
    yield Case("index without vectors", question(), row=ROWS[1], settings=without)
    row = "one channel errors or is slow"
    yield Case("fact index closed", question(), row=row, broken=_facts_closed)
    row = "all channels fail"
    yield Case("searches garbled", question(), row=row,
               broken=_moody(opensearch, "garbage", b"/_msearch"))  # fmt: skip
    row = "retrieval works, hydration fails"
    yield Case("reads cut", question(), row=row, broken=_moody(opensearch, "cut", b"/_mget"))
    yield Case("index killed", question(), row=row, broken=_killed(opensearch))
    yield from without_graph("graph's line cut", {}, _moody(neo4j, "cut"))
    row = "graph down, slow, or plan rejected"
    yield Case("graph garbled", question(), row=row, broken=_moody(neo4j, "garbage"))
    yield Case("graph hangs", question(), row=row, broken=_stopped(neo4j))
    yield Case("graph killed", question(), row=row, broken=_killed(neo4j))
    yield Case("traces cannot be written", question(), row=ROWS[-1],
               settings={"traces": "local"}, broken=_moody(neo4j, "cut"))  # fmt: skip


def _stopped(which: Which) -> Any:
    return lambda servers: servers.real.stopped(which)


def _killed(which: Which) -> Any:
    return lambda servers: servers.real.killed(which)


def _moody(which: Which, mood: Any, only: bytes = b"") -> Any:
    return lambda servers: servers.real.moody(which, mood, only)


@contextmanager
def _facts_closed(servers: Servers) -> Iterator[None]:
    address = servers.real.environment()["DOCSTOKG_INDEX_URL"]
    (facts,) = json.loads(_bare(address, "GET", "/docstokg-facts/_alias"))
    _bare(address, "POST", f"/{facts}/_close")
    try:
        yield
    finally:
        _bare(address, "POST", f"/{facts}/_open")
        _bare(address, "GET", f"/_cluster/health/{facts}?wait_for_status=yellow")


def _bare(address: str, method: str, path: str) -> bytes:
    """Make one HTTP request, beside the adapters."""
    with urlopen(Request(address + path, method=method), timeout=60) as answer:
        text: bytes = answer.read()
    return text
