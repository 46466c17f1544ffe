"""No process looks up a name, connects outside loopback, or writes outside its folders."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.infra.conftest import ROOT
from tests.infra.isolated import isolation
from tests.jvm.processes import free_port

pytestmark = [pytest.mark.xdist_group("bundles"), pytest.mark.timeout(900)]

DEPLOYED = """
import json, os, sys
from pathlib import Path
from tests.infra.test_processes import FUNCTIONS, STEPS, Deployment, Fleet, Folders, question
build, logs = Path(sys.argv[1]), Path(sys.argv[2])
timeouts = {spec.name: 60.0 for spec in FUNCTIONS}
variables = dict.fromkeys(timeouts, dict(os.environ))
fleet = Fleet(Folders(build), logs, variables=variables, timeouts=timeouts)
synthesis = {"enabled": True, "model": "extractive"}
body = {**json.loads(question()), "synthesis": synthesis, "budget": {"max_tokens_gen": 300}}
for _ in range(5):  # the first questions may meet cold functions
    reply = Deployment(fleet).post("answer", json.dumps(body))
    answer = json.loads(reply.body) if reply.status == 200 else {}
    if answer.get("answer"):
        break
fleet.close()
assert answer.get("answer"), reply.body
"""


def _report(
    folder: Path, processes: list[dict[str, Any]], environment: dict[str, str]
) -> dict[str, list[str]]:
    plan = {"environment": environment, "processes": processes}
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    command = [*isolation(), sys.executable, "-m", "tests.infra.isolated", folder / "plan.json"]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home folder; skip the test if namespaces are not available."""
    probe = subprocess.run([*isolation(), "ip", "link"], check=False, capture_output=True)
    if probe.returncode or not shutil.which("ip"):
        pytest.skip("needs unshare and ip, and the right to create a network namespace")
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def _environment(home: Path, cache_dir: Path, store: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    url = f"sqlite:///{store}"
    return {
        **inherited,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "xdg"),
        "DOCSTOKG_CACHE_DIR": str(cache_dir),
        "DOCSTOKG_INDEX_URL": url,
        "DOCSTOKG_GRAPH_URL": url,
    }


def _process(
    *argv: str, seconds: float = 0, repeat: bool = False, until_query: bool = False
) -> dict[str, Any]:
    return {"argv": argv, "seconds": seconds, "repeat": repeat, "until_query": until_query}


@pytest.mark.slow
def test_commands_server_and_functions_stay_inside(
    home: Path, copied_store: Path, cache_dir: Path, bundles: Path, tmp_path: Path
) -> None:
    command = str(ROOT / ".venv/bin/docstokg")
    note = tmp_path / "notes" / "note.md"
    note.parent.mkdir()
    note.write_text("# Harbour\n\nThe harbour closes at ten.\n", encoding="utf-8")
    loaded = f"sqlite:///{tmp_path}/loaded.sqlite"
    demo = f"sqlite:///{tmp_path}/demo.sqlite"
    report = _report(
        tmp_path,
        [
            _process(command, "serve", "--port", str(free_port()), seconds=60),
            _process(command, "ask", "What are seizures?", seconds=60, repeat=True),
            _process(
                *(command, "load", str(note.parent), "--index", loaded, "--graph", loaded),
                seconds=60,
                repeat=True,
            ),
            _process(command, "demo", "--index", demo, "--graph", demo),
            _process(
                *(sys.executable, "-c", DEPLOYED, str(bundles / "host"), str(tmp_path / "logs"))
            ),
        ],
        _environment(home, cache_dir, copied_store),
    )
    # The last one is the temporary folder of SQLite.
    allowed = (
        str(tmp_path),
        str(cache_dir),
        str(Path(cache_dir).parent),
        "/tmp",
        "/var/tmp/etilqs",
    )
    foreign = [
        path
        for path in report["files"]
        if path.startswith("/") and not path.startswith(allowed) and "__pycache__" not in path
    ]
    assert report["failures"] == []
    assert report["queries"] == []
    assert report["connections"] == []
    assert foreign == []
    assert [path for path in home.rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_telemetry_that_is_on_is_seen(
    home: Path,
    copied_store: Path,
    cache_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control run: inside the namespace the vendor's telemetry is on, and is reported."""
    monkeypatch.setenv("CI", "true")
    environment = _environment(home, cache_dir, copied_store)
    command = str(ROOT / ".venv/bin/docstokg")
    report = _report(
        tmp_path,
        [_process(command, "serve", "--port", str(free_port()), seconds=180, until_query=True)],
        {**environment, "ORT_DISABLE_TELEMETRY": "0"},
    )
    assert report["failures"] == []
    assert report["queries"]
    assert any(path.is_file() for path in home.rglob("*"))
