"""The command line and the ports in this process, over the small store."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from docstokg.wiring import Wiring
from docstokg_local.cli.commands import app, run

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(
    small_store: Path,
    cache_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Cli:
    """Run a command over a store, None for the default one; exit code, output and remarks."""
    monkeypatch.setenv("DOCSTOKG_CACHE_DIR", str(cache_dir))
    monkeypatch.delenv("DOCSTOKG_INDEX_URL", raising=False)
    monkeypatch.delenv("DOCSTOKG_GRAPH_URL", raising=False)

    def call(*arguments: object, store: Path | None = small_store) -> tuple[int, str, str]:
        capsys.readouterr()
        named = ["--index", f"sqlite:///{store}"] if store else []
        code = run(app, [*map(str, arguments), *named])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def wiring(
    small_store: Path, settings_for: Callable[..., Any], models: dict[str, Any]
) -> Iterator[Wiring]:
    wired = Wiring(settings_for(small_store), ports=models)
    yield wired
    wired.close()
