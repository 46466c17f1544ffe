"""What end-to-end tests share: real servers on free ports."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from docstokg.settings import Settings
from tests.builders import settings_at
from tests.conftest import started


@contextmanager
def served(settings: Settings, models: dict[str, object] | None = None) -> Iterator[str]:
    """Serve until the block ends; give the address, without a slash at its end."""
    # A request that comes before the server runs waits for it.
    listener = socket.create_server(("127.0.0.1", 0))
    with started(settings, models) as app, listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def server_for(models, small_store, cache_dir) -> Iterator[Callable[..., str]]:
    """Start a server over the small store, or another, with other settings; give its address."""
    with ExitStack() as servers:

        def start(store: Path = small_store, **overrides) -> str:
            settings = settings_at(store, **{"cache_dir": cache_dir, **overrides})
            return servers.enter_context(served(settings, models))

        yield start


@pytest.fixture(scope="module")
def url(server_for) -> str:
    """The address of a server over the small store."""
    return server_for()


def openai_client(url: str, key: str = "none needed") -> Any:
    """Return OpenAI's own client of a server."""
    import openai  # heavy; few files need it

    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    """OpenAI's own client of that server."""
    with openai_client(url) as opened:
        yield opened
