"""The commands of the tutorial and the how-tos run as written, in order."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.builders import ran

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = ("tutorial.md", "how-to.md")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader")


@pytest.fixture(scope="module")
def environment(folder: Path, cache_dir: Path, tmp_path_factory) -> dict[str, str]:
    """A reader's shell: `docstokg` on the path, no settings, an empty data folder."""
    bin_ = tmp_path_factory.mktemp("bin")
    program = bin_ / "docstokg"
    call = (
        "import sys; sys.argv[0] = 'docstokg'; from docstokg_local.cli.commands import main; main()"
    )
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{call}" "$@"\n')
    program.chmod(0o755)
    variables = {key: value for key, value in os.environ.items() if not key.startswith("DOCSTOKG_")}
    path = os.pathsep.join(str(ROOT / part) for part in (".", "layers/common/python", "local"))
    return {
        **variables,
        "PATH": f"{bin_}{os.pathsep}{variables['PATH']}",
        "PYTHONPATH": path,
        "DOCSTOKG_CACHE_DIR": str(cache_dir),
    }


def blocks(kind: str, *pages: str) -> list[tuple[str, str]]:
    page_blocks = []
    for page in pages:
        text = (DOCS / page).read_text("utf-8")
        page_blocks += [(page, block[2]) for block in BLOCK.finditer(text) if block[1] == kind]
    return page_blocks


def test_every_command_of_tutorial_and_how_tos_runs(folder: Path, environment) -> None:
    outputs = {}
    commands = blocks("sh", *PAGES)
    assert len(commands) >= 8
    for page, command in commands:
        done = ran("sh", "-e", "-c", command, cwd=folder, env=environment)
        assert done.returncode == 0, (page, command, done.stdout, done.stderr)
        outputs[command] = done.stdout
    whole = "\n".join(outputs.values())
    assert "30 days of paid leave" in whole
    assert "I don't have information about that" in whole
    assert "0 findings" in whole
    (digests,) = [text for command, text in outputs.items() if "--digest" in command]
    assert len(set(re.findall(r"^digest (\w+)", digests, re.MULTILINE))) == 1
    # What the tutorial says of a changed source is so.
    note = folder / "handbook" / "travel.md"
    note.write_text(note.read_text().replace("140", "410"))
    verify = "docstokg verify response.json --source handbook"
    changed = ran("sh", "-c", verify, cwd=folder, env=environment)
    assert changed.returncode == 1


@pytest.mark.parametrize(("page", "program"), blocks("python", *PAGES))
def test_every_program_of_the_how_tos_runs(server_for, capsys, page: str, program: str) -> None:
    exec(compile(program, page, "exec"), {"URL": server_for()})
    assert capsys.readouterr().out.strip()
