"""Every setting, command, make target, test, module, file and link that a page names exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from docstokg.settings import NAMES, variable
from docstokg_local.cli.commands import app
from infra.specs import ROOT
from tests.builders import ran

FILES = ran("git", "ls-files", cwd=ROOT, check=True).stdout.split()
PAGES = [name for name in FILES if name.endswith(".md") and name != "CHANGELOG.md"]
SOURCES = "\n".join(
    (ROOT / name).read_text("utf-8")
    for name in FILES
    if name.endswith((".py", ".sh")) or name in ("Makefile", "container/install")
)
TESTS = set(re.findall(r"def (test_\w+)", SOURCES)) | {Path(name).stem for name in FILES}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
VARIABLES = {variable(name) for name in NAMES} | set(re.findall(r"\bDOCSTOKG_[A-Z_]+\b", SOURCES))
COMMANDS = set(get_command(app).commands)


def unknown(page: str) -> Iterator[str]:
    text = (ROOT / page).read_text("utf-8")
    for kind, pattern, known in (
        ("setting", r"\bDOCSTOKG_[A-Z_]*[A-Z]\b(?!_)", VARIABLES),
        ("command", r"`docstokg ([a-z][a-z-]+)", COMMANDS),
        ("make target", r"`make ([a-z][a-z-]+)", TARGETS),
    ):
        yield from (f"{kind} {name}" for name in re.findall(pattern, text) if name not in known)
    for name in re.findall(r"`(test_\w+?)(?:\.\.\.|\.py)?`", text):
        if not any(test_name.startswith(name) for test_name in TESTS):
            yield f"test {name}"
    for name in re.findall(r"`([a-z_.-]+/[a-z0-9_./-]+\.(?:py|md|js|json))`", text):
        if not any(f"/{file}".endswith(f"/{name}") for file in FILES) and f"> {name}" not in text:
            yield f"file {name}"
    for name in re.findall(r"python -m ((?:benchmarks|tests|training|infra)[\w.]+)", text):
        path = name.replace(".", "/")
        if not {f"{path}.py", f"{path}/__main__.py"} & set(FILES):
            yield f"module {name}"
    for target in re.findall(r"\]\((?!https?:)([^)#]+\.md)", text):
        if not (ROOT / page).parent.joinpath(target).is_file():
            yield f"link {target}"


@pytest.mark.parametrize("page", PAGES)
def test_each_name_on_a_page_exists(page: str) -> None:
    assert list(unknown(page)) == []


@pytest.mark.parametrize("page", PAGES)
def test_no_page_installs_the_unregistered_name(page: str) -> None:
    """An index would install anybody's package of this name; a file or a URL is ours."""
    text = (ROOT / page).read_text("utf-8")
    matches = re.findall(
        r"(?:pip|uvx|uv tool|pipx)\b[^`\n]*?[\s'\"](docstokg\b(?!\[[^]]*\] @|/)[^`\n]*)", text
    )
    assert matches == []
