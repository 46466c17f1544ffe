"""What end-to-end tests share: real servers on free ports."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
import uvicorn

from docstokg.observability import Telemetry
from docstokg.wiring import Wiring
from docstokg_local.prometheus import PrometheusSink
from docstokg_local.server import application


@pytest.fixture(scope="module")
def server_for(models, small_store, cache_dir) -> Iterator[Callable[..., str]]:
    """Start a server over the small store with other settings; give its address."""
    from docstokg.settings import Settings

    started = []

    def start(**more) -> str:
        url = f"sqlite:///{small_store}"
        given = {"index_url": url, "graph_url": url, "cache_dir": str(cache_dir), **more}
        settings = Settings(**given)
        sink = PrometheusSink()
        wiring = Wiring(settings, Telemetry(sink, lambda line: None), models)
        held = socket.socket()
        held.bind(("127.0.0.1", 0))
        held.listen()  # a request that comes before the server runs waits for it
        config = uvicorn.Config(
            application(settings, wiring, sink), log_level="error", access_log=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [held]}, daemon=True)
        thread.start()
        started.append((server, thread, held, wiring))
        return f"http://127.0.0.1:{held.getsockname()[1]}"

    yield start
    for server, thread, held, wiring in started:
        server.should_exit = True
        thread.join(10)
        held.close()
        wiring.close()
