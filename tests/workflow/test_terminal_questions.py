"""Confirmations before deletions on a terminal; without a terminal there is no prompt."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import ran, write_files

pytestmark = pytest.mark.slow
Shell = Callable[..., tuple[int, str, str]]
GENEROUS_S = 300


@pytest.fixture
def shell(tmp_path: Path, cache_dir: Path) -> Shell:
    """Run a command in a process of its own, `typed` on a terminal or without one (None)."""
    store = f"sqlite:///{tmp_path / 'store.sqlite'}"
    variables = {
        "INDEX_URL": store,
        "GRAPH_URL": store,
        "CACHE_DIR": str(cache_dir),
        "NAMES": "rule",
    }
    environment = os.environ | {f"DOCSTOKG_{key}": value for key, value in variables.items()}

    def call(*arguments: object, typed: str | None = None) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "docstokg_local.cli.commands", *map(str, arguments)]
        if typed is None:
            done = ran(*command, env=environment, stdin=subprocess.DEVNULL, timeout=GENEROUS_S)
            return done.returncode, done.stdout, done.stderr
        ours, theirs = pty.openpty()
        os.write(ours, typed.encode())
        process = subprocess.Popen(
            command, env=environment, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True
        )
        os.close(theirs)
        screen = b""
        while part := _read(ours):
            screen += part
        out, _ = process.communicate(timeout=GENEROUS_S)
        os.close(ours)
        return process.returncode, out, screen.decode()

    return call


def _read(terminal: int) -> bytes:
    """Read on until the other side is closed, which a terminal tells by an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


def folder(path: Path) -> Path:
    return write_files(path, {f"{name}.md": f"Otter {name} dives." for name in "abc"})


def documents(shell: Shell) -> list[str]:
    _, out, _ = shell("list", "--documents")
    return [line.split()[0] for line in out.splitlines() if ".md" in line]


def test_deleting_a_namespace_is_confirmed_on_terminals_only(shell: Shell, tmp_path: Path) -> None:
    home = folder(tmp_path / "home")
    assert shell("load", home, "--no-embed")[0] == 0
    code, _, screen = shell("delete", "--namespace", "default", typed="n\n")
    assert "Remove everything of namespace default? [y/N]" in screen
    assert (code, documents(shell)) == (1, ["a.md", "b.md", "c.md"])
    code, out, _ = shell("delete", "--namespace", "default", typed="y\n")
    assert (code, out.strip()) == (0, "namespace default: 3 chunks removed")

    shell("load", home, "--no-embed")
    assert shell("delete", "--namespace", "default")[:2] == (
        0,
        "namespace default: 3 chunks removed\n",
    )


def test_removals_are_confirmed_on_terminals_and_listed_elsewhere(
    shell: Shell, tmp_path: Path
) -> None:
    home = folder(tmp_path / "home")
    shell("load", home, "--no-embed")
    (home / "b.md").unlink()
    sync = ("load", home, "--no-embed", "--sync")
    code, _, err = shell(*sync)
    assert code == 1
    assert "deleted: b.md" in err
    assert "still loaded: 1 document; use --yes to remove them" in err
    code, _, screen = shell(*sync, typed="n\n")
    assert code == 1
    assert "Remove 1 document? [y/N]" in screen
    assert documents(shell) == ["a.md", "b.md", "c.md"]
    assert shell(*sync, typed="y\n")[0] == 0
    assert documents(shell) == ["a.md", "c.md"]
    (home / "c.md").unlink()
    assert shell(*sync, "--yes")[0] == 0
    assert documents(shell) == ["a.md"]
