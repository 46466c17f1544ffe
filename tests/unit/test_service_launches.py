"""How the servers on this machine are started."""

import json
import shutil
import socket
from pathlib import Path

import pytest
import typer

from docstokg_local.cli.stores import ENDPOINTS_FILE, settings_of
from tests.jvm.launches import LaunchSpec, neo4j_launch
from tests.jvm.programs import Engine
from tests.jvm.servers import Endpoint, list_endpoint

HOMES = 250


def test_no_password_of_neo4j_is_an_option_of_the_tool_that_sets_it(tmp_path: Path) -> None:
    """One start in sixty-four failed: the tool showed how it is used and ended."""
    true = Path(shutil.which("true") or "/bin/true")
    passwords = set()
    for number in range(HOMES):
        home = tmp_path / str(number)
        home.mkdir()
        launch = neo4j_launch(LaunchSpec(tmp_path, home, true, 7687, 512, {}))
        passwords.add(launch.password)
    assert len(passwords) == HOMES
    assert not [one for one in passwords if one.startswith("-")]
    assert min(map(len, passwords)) >= 24


def test_real_names_the_servers_that_were_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCSTOKG_CACHE_DIR", str(tmp_path))
    file = tmp_path / ENDPOINTS_FILE
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"bolt://127.0.0.1:{listener.getsockname()[1]}"
        list_endpoint(file, Engine.NEO4J, Endpoint(url, "neo4j", "secret", 1))
        found = settings_of("sqlite:////tmp/x", "real")
        assert (found.graph_url, found.graph_user) == (url, "neo4j")
        assert found.graph_password == "secret"
        with pytest.raises(typer.BadParameter, match="no opensearch runs here"):
            settings_of("real", "real")
    assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(typer.BadParameter, match="no neo4j runs here"):
        settings_of("sqlite:////tmp/x", "real")  # it was killed, and is listed still
    list_endpoint(file, Engine.NEO4J, None)
    assert json.loads(file.read_text()) == {}
