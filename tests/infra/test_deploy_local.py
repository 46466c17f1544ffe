"""The deploy guide in an emulated account, to its end: `make deploy-local` as a test."""

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.builders import ran
from tests.infra.conftest import ROOT
from tests.jvm import servers
from tests.services import CACHE, REQUIRED

# One worker has the servers and the functions; bundles may have to be built first.
pytestmark = [pytest.mark.xdist_group("services"), pytest.mark.timeout(3600)]
CREATION = (
    "bootstrap",
    "synthesise dev",
    "deploy both stacks",
    "destroy",
    "deploy again",
    "destroy again",
    "staging, up to creation",
    "prod, up to creation",
)
OPERATION = (
    "50 documents, killed once; again with five of another namespace",
    "10 questions through the deployed machine",
    "one request, traced",
    "the other routes",
    "metrics as written, against alarms and dashboard",
    "one changed object",
    "the graph's password rotated",
    "deploy again, unchanged",
    "deploy a changed function",
    "roll back: the former assembly",
    "roll back: a failing smoke test",
    "a removed model and its secret: refused, then in two deploys",
    "both stores lost, restored from the bucket",
)


def test_the_last_line_names_a_failed_step(tmp_path: Path) -> None:
    """Neither npx nor servers are there: their cache is empty, and Maven not on the search path."""
    if shutil.which("node") is None:
        pytest.skip("nothing of the guide can run: node is not there")
    for folder in map(Path, os.get_exec_path()):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name not in ("npx", "mvn") and not (tmp_path / program.name).exists():
                (tmp_path / program.name).symlink_to(program)
    from infra.package import build

    build("host")
    command = [sys.executable, "-m", "tests.infra.emulator.deploy_local"]
    with TemporaryDirectory() as cache:
        Path(cache).chmod(0o755)  # else a cache of other users of the machine is taken
        environment = {**os.environ, "PATH": str(tmp_path), "DOCSTOKG_CACHE_DIR": cache}
        done = ran(*command, cwd=ROOT, env=environment)
    assert done.returncode == 1, done.stderr[-3000:]
    assert done.stderr.splitlines()[-1] == (
        'make deploy-local: the step "bootstrap" failed: '
        "SystemExit('the CDK command line needs Node: npx is not there')"
    )


def test_the_guide_completes_in_an_emulated_account(tmp_path: Path) -> None:
    """Without Node nothing of it can run; without Java it ends after creation and says so."""
    if shutil.which("npx") is None:
        pytest.skip("the CDK command line needs Node: npx is not there")
    from infra.package import build

    build("host")
    report = tmp_path / "report.md"
    command = [sys.executable, "-m", "tests.infra.emulator.deploy_local", "--out", report]
    done = ran(*command, cwd=ROOT, env={**os.environ, "DOCSTOKG_CACHE_DIR": str(CACHE)})
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    steps = [line.split(" | ")[0].removeprefix("| ") for line in report.read_text().splitlines()]
    away = [why for which in servers.Engine if (why := servers.missing(which, CACHE))]
    assert set(CREATION) <= set(steps)
    assert (set(OPERATION) <= set(steps)) is not bool(away)
    if away:
        assert "this ends after creation" in done.stderr
        assert not REQUIRED, away[0]
