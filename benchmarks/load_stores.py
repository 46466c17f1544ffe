"""OpenSearch and Neo4j servers with fault injection for load runs."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from docstokg.loading.context import LoadOptions
from docstokg.loading.pipeline import load
from docstokg.loading.read.rejects import RejectLog
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.stores import stores_of
from tests.jvm import servers as services
from tests.jvm.servers import Endpoint, Engine
from tests.proxy import Mood, Proxy

CACHE = Path(os.environ.get("DOCSTOKG_CACHE_DIR", services.DEFAULT_CACHE)).expanduser()
SLOW_S = 0.3
NAMES = {Engine.OPENSEARCH: "INDEX", Engine.NEO4J: "GRAPH"}


class Real:
    """Both servers, each with an optional proxy."""

    def __init__(self, home: Path, endpoints: dict[Engine, Endpoint]) -> None:
        self.home, self._given = home, endpoints
        self._proxies = {
            which: Proxy(urlsplit(endpoint.url).port or 0) for which, endpoint in endpoints.items()
        }

    def environment(self, ports: dict[Engine, int] | None = None) -> dict[str, str]:
        """Return the server's environment variables."""
        variables: dict[str, str] = {}
        for which, endpoint in self._given.items():
            at = urlsplit(endpoint.url)
            port = (ports or {}).get(which, at.port)
            name = f"DOCSTOKG_{NAMES[which]}"
            variables |= {
                f"{name}_URL": f"{at.scheme}://{at.hostname}:{port}",
                f"{name}_USER": endpoint.user,
                f"{name}_PASSWORD": endpoint.password,
            }
        return {name: value for name, value in variables.items() if value}  # OpenSearch has no user

    def through_proxies(self) -> dict[str, str]:
        """Return the same with the addresses of the proxies."""
        return self.environment({which: proxy.port for which, proxy in self._proxies.items()})

    def pids(self) -> list[int]:
        """Return the process ids of the servers."""
        return [endpoint.pid for endpoint in self._given.values()]

    def faults(self) -> Iterator[tuple[str, Callable[[], AbstractContextManager[None]]]]:
        """Return the faults of each server."""
        for which in self._given:
            yield f"{which} stopped", partial(self.stopped, which)
            yield f"{which} killed", partial(self.killed, which)
            yield f"{which} slow", partial(self.moody, which, "slow")
            yield f"{which} lying", partial(self.moody, which, "garbage")

    @contextmanager
    def stopped(self, which: Engine) -> Iterator[None]:
        """Suspend the server for a while: it accepts connections and never responds."""
        os.kill(self._given[which].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._given[which].pid, signal.SIGCONT)

    @contextmanager
    def killed(self, which: Engine) -> Iterator[None]:
        """Kill the server; start it again afterwards."""
        services.stop(which, self.home / which, kill=True)
        try:
            yield
        finally:
            self._given[which] = services.start(which, self.home / which, cache=CACHE)

    @contextmanager
    def moody(self, which: Engine, mood: Mood, only: bytes = b"") -> Iterator[None]:
        """Modify the server's responses in its proxy for a while.

        `only`: limit this to requests that contain these bytes.
        """
        proxy = self._proxies[which]
        proxy.only, proxy.mood, proxy.delay_s = only, mood, SLOW_S
        try:
            yield
        finally:
            proxy.only, proxy.mood = b"", "pass"

    def let_go(self) -> None:
        """End the proxies; the servers keep running."""
        for proxy in self._proxies.values():
            proxy.close()

    def close(self) -> None:
        """End proxies and servers."""
        self.let_go()
        for which in self._given:
            services.stop(which, self.home / which, kill=True)


@contextmanager
def real_stores(folder: Path | None, namespace: str, heap_mb: int = 512) -> Iterator[Real]:
    """Start both servers in a folder of their own and load `folder` into them."""
    with ExitStack() as stack:
        parent = services.services_folder(CACHE) / "sessions"
        parent.mkdir(parents=True, exist_ok=True)
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=parent, prefix="load-")))
        home.chmod(0o755)  # OpenSearch runs as an account of its own
        endpoints: dict[Engine, Endpoint] = {}
        for which in Engine:
            stack.callback(services.stop, which, home / which, kill=True)
            endpoints[which] = services.start(
                which, home / which, cache=CACHE, port=services.free_port(), heap_mb=heap_mb
            )
        real = Real(home, endpoints)
        stack.callback(real.close)
        if folder is not None:
            wiring = Wiring(Settings.from_environment(real.environment()))
            options = LoadOptions(namespace=namespace)
            done = load([folder], options, stores_of(wiring), RejectLog(None))
            wiring.close()
            print(f"{done.chunks} chunks loaded", flush=True)
        yield real
