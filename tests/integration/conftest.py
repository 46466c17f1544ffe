"""Fixtures of several suites over the real stores."""

import secrets
from collections.abc import Iterator

import pytest

from tests.contract.real import remove_indices
from tests.jvm.servers import Engine
from tests.services import server


@pytest.fixture
def place() -> Iterator[tuple[str, str]]:
    """The address of this run's OpenSearch, and the name of an index of the test's own."""
    url, name = server(Engine.OPENSEARCH).url, f"t{secrets.token_hex(6)}"
    yield url, name
    remove_indices(url, name)
