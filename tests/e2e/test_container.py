"""The container's files, as far as they can be held without an engine to build and run them."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from docstokg.settings import NAMES, SECRETS, Settings, variable
from tests.builders import ran

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "container"
FILE = (FOLDER / "Containerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def lines(word: str) -> list[list[str]]:
    return [line.split()[1:] for line in FILE.splitlines() if line.startswith(f"{word} ")]


def test_a_single_script_runs_and_nobody_is_root() -> None:
    assert lines("RUN") == [["sh", "container/install", "/src", "/opt/docstokg"]]
    assert lines("USER") == [["10001:10001"]]
    assert FILE.index("USER") > FILE.rindex("FROM")
    # The base image is the only argument: a value given at build time stays in the image.
    assert not lines("ADD") and lines("ARG") == [["BASE=python:3.13-slim"]]


def test_no_secret_can_get_into_a_layer() -> None:
    names = {variable(field) for field in SECRETS}
    assert not [name for name in names if name in FILE]
    copied = [path for line in lines("COPY") if "--from=build" not in line for path in line[:-1]]
    assert "." not in copied and "container" not in copied
    ignored = (ROOT / ".gitignore").read_text("utf-8").split()
    assert {"container/.env", "container/keys.json"} <= set(ignored)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_script_installs_from_the_copied_files(tmp_path: Path) -> None:
    """Run in a folder that contains only the files of the COPY lines."""
    source, target = tmp_path / "src", tmp_path / "opt"
    for *paths, to in (line for line in lines("COPY") if line[0][0] != "-"):
        for path in paths:
            place = source / (path if to == "./" else to)
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / path).is_dir() else shutil.copy)(ROOT / path, place)
    uv = Path(ran(ROOT / "scripts" / "find-uv", check=True).stdout.strip())
    environment = os.environ | {
        "PATH": f"{uv.parent}:{os.environ['PATH']}",
        "PYTHON": str(ROOT / ".venv" / "bin" / "python"),
        "UV_SYSTEM_CERTS": "1",
    }
    done = ran("sh", "container/install", source, target, cwd=source, env=environment)
    assert done.returncode == 0, done.stderr
    assert "0.1.0" in done.stdout
    shutil.rmtree(source)
    code = (
        "import importlib.util as u, json\n"
        "from docstokg_local.engine.workflow import DEFINITION\n"
        "from docstokg_local.cli.extras import EXTRAS\n"
        "names = [n for all in EXTRAS.values() for n in all] + ['cognition', 'torch', 'pytest']\n"
        "print(json.dumps([str(DEFINITION), [n for n in names if u.find_spec(n) is None]]))"
    )
    probe = ran(target / "bin" / "python", "-c", code, cwd=tmp_path, env={})
    assert probe.returncode == 0, probe.stderr
    definition, missing = json.loads(probe.stdout)
    assert definition.startswith(str(target))
    assert missing == ["torch", "pytest"]


def test_only_loopback_is_published_and_stores_stay_inside() -> None:
    ports = {name: service.get("ports", []) for name, service in SERVICES.items()}
    assert all(port.startswith("127.0.0.1:") for published in ports.values() for port in published)
    assert [name for name, published in ports.items() if published] == ["docstokg"]
    assert COMPOSE["networks"]["stores"] == {"internal": True}
    assert {name: service["networks"] for name, service in SERVICES.items()} == {
        "docstokg": ["outside", "stores"],
        "opensearch": ["stores"],
        "neo4j": ["stores"],
    }


def test_the_service_writes_nowhere_and_asks_for_keys() -> None:
    ours = SERVICES["docstokg"]
    assert ours["read_only"] is True and ours["user"] == "10001:10001"
    assert ours["environment"]["DOCSTOKG_AUTH"] == "keys"
    for service in SERVICES.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert ":" in service.get("image", ":") and not service.get("image", "").endswith("latest")


def test_variables_are_settings_and_every_hole_is_explained() -> None:
    variables = {variable(field) for field in NAMES}
    ours: dict[str, str] = SERVICES["docstokg"]["environment"]
    assert set(ours) <= variables
    holes = re.findall(r"\$\{(\w+)", (FOLDER / "compose.yaml").read_text("utf-8"))
    example = re.findall(r"^(\w+)=", (FOLDER / "env.example").read_text("utf-8"), re.M)
    assert set(holes) == set(example)
    for name, value in ours.items():
        if name.removeprefix("DOCSTOKG_").lower() in SECRETS:
            assert value.startswith("${"), name
    Settings.from_environment(
        {name: re.sub(r"\$\{\w+(?::[-?][^}]*)?\}", "x", value) for name, value in ours.items()}
    )


@pytest.mark.skipif(shutil.which("helm") is None, reason="the command helm is not there")
def test_the_chart_is_accepted_and_sets_known_settings() -> None:
    chart = FOLDER / "chart"
    ran("helm", "lint", "--strict", chart, check=True)
    command = ("helm", "template", "docs", chart, "--set", "settingsSecret=more")
    deployment, service = sorted(
        yaml.safe_load_all(ran(*command, check=True).stdout), key=lambda part: str(part["kind"])
    )
    pod = deployment["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False
    (container,) = pod["containers"]
    assert {row["name"] for row in container["env"]} <= {variable(field) for field in NAMES}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
