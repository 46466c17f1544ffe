"""Fixtures of several fault suites: a server of models, a real store, and a proxy before it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.real_stores import Place, placed
from tests.model_server import ModelServer, serving
from tests.proxy import Proxy


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with serving() as state:
        yield state


@pytest.fixture(scope="module")
def place(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    cache_dir: Path,
    models: dict[str, Any],
) -> Iterator[Place]:
    """A server of the module's `ENGINE`, loaded with the small corpus."""
    folder = tmp_path_factory.mktemp("faults")
    with placed(request.module.ENGINE, folder, cache_dir, models) as place:
        yield place


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    proxy = Proxy(int(place.at.url.rpartition(":")[2]))
    yield proxy
    proxy.close()
