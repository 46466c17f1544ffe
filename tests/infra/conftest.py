"""One synthesis of all environments, shared by every test and every worker."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.settings import Environment, environment
from tests.builders import ran
from tests.signatures import be_a_role

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ("dev", "staging", "prod")
# Fixture -> group of the tests that wait for it: wheels for two machines, a synthesis.
GROUPS = {"bundles": "bundles", "assembly": "synth"}


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Let one worker run the tests that share a slow fixture, and the first of them wait for it."""
    for item in items:
        if group := next((GROUPS[name] for name in GROUPS if name in item.fixturenames), None):
            item.add_marker(pytest.mark.xdist_group(group))
            item.add_marker(pytest.mark.timeout(900))


class Template:
    """Both stacks of an environment as one, with their imports resolved."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.paths = tuple(
            folder / name / f"docstokg-{name}{part}.template.json" for part in ("-data", "")
        )
        self.texts = tuple(path.read_text(encoding="utf-8") for path in self.paths)
        bodies = [json.loads(text) for text in self.texts]
        outputs = {
            (path.name.removesuffix(".template.json"), key): output["Value"]
            for path, body in zip(self.paths, bodies, strict=True)
            for key, output in body.get("Outputs", {}).items()
        }
        data, run = (_read(body["Resources"], outputs) for body in bodies)
        assert not data.keys() & run.keys() - {"CDKMetadata"}
        self.data, self.run = data, run
        self.resources: dict[str, dict[str, Any]] = data | run
        self.outputs = {
            key: value["Value"] for body in bodies for key, value in body.get("Outputs", {}).items()
        }

    def all(self, kind: str) -> dict[str, dict[str, Any]]:
        """Properties of every resource of a type, by logical id."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.resources.items()
            if resource["Type"] == kind
        }

    def resource(self, kind: str) -> dict[str, Any]:
        """The resource of a type there is one of."""
        (match,) = (resource for resource in self.resources.values() if resource["Type"] == kind)
        return match

    def only(self, kind: str) -> dict[str, Any]:
        return dict(self.resource(kind)["Properties"])

    @property
    def ours(self) -> Environment:
        """Settings of the environment."""
        return environment(self.name)

    @property
    def alarms(self) -> dict[str, dict[str, Any]]:
        """Alarms by their name, without that of the environment."""
        alarms = self.all("AWS::CloudWatch::Alarm").values()
        return {alarm["AlarmName"].split("-", 2)[2]: alarm for alarm in alarms}

    @property
    def machine(self) -> dict[str, Any]:
        """The machine that answers; the other one, which loads, has no version in front of it."""
        machines = self.all("AWS::StepFunctions::StateMachine")
        (machine,) = (
            resource for name, resource in machines.items() if name.startswith("Workflow")
        )
        return machine

    def function(self, name: str) -> dict[str, Any]:
        matches = [
            properties
            for properties in self.all("AWS::Lambda::Function").values()
            if properties["Handler"] == handler_of(name)
        ]
        assert len(matches) == 1, (name, len(matches))
        return matches[0]

    def statements(self) -> list[tuple[str, dict[str, Any]]]:
        """Every IAM statement with the logical id of its policy."""
        return [
            (name, statement)
            for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
            for name, properties in self.all(kind).items()
            for statement in properties["PolicyDocument"]["Statement"]
        ]


def handler_of(name: str) -> str:
    """What Lambda imports of a function of ours."""
    return f"docstokg_functions.{name.replace('_', '.')}.handler.handler"


def _read(value: Any, outputs: dict[tuple[str, str], Any]) -> Any:
    """Return `value` with every Fn::GetStackOutput replaced by that stack's output."""
    if isinstance(value, dict):
        if set(value) == {"Fn::GetStackOutput"}:
            named = value["Fn::GetStackOutput"]
            return outputs[named["StackName"], named["OutputName"]]
        return {key: _read(item, outputs) for key, item in value.items()}
    if isinstance(value, list):
        return [_read(item, outputs) for item in value]
    return value


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of `python -m infra.app` for all environments, without account or network."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = shared / "cdk"
    with (shared / "cdk.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").is_file():
            # Any attempt to find an account or a network fails at once.
            nobody = {"AWS_EC2_METADATA_DISABLED": "true", "HTTPS_PROXY": "http://127.0.0.1:9"}
            command = ["-m", "infra.app", *ENVIRONMENTS, "--sources", "--out", str(folder)]
            done = infra_run(*command, HOME=str(shared), **nobody)
            reports = [findings(path.parent) for path in folder.glob("*/validation-report.json")]
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}\n{reports}"
            (folder / "done").write_text(done.stdout)
    return folder


def infra_run(*program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python at the root of the repository; `variables` beside what Node needs."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }
    return ran(sys.executable, *program, cwd=ROOT, env=environment | variables)


def synthesised(folder: Path, base: str, changes: str) -> Template:
    """The environment `base` with `changes` (keyword arguments as text); both rule packs hold."""
    code = (
        "from dataclasses import replace; from pathlib import Path; from infra.app import build;"
        f"from infra.settings import environment; ours = replace(environment({base!r}), {changes});"
        f"build(ours, out=Path({str(folder)!r}) / ours.name).synth()"
    )
    done = infra_run("-c", code)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    (template_file,) = folder.iterdir()
    return Template(folder, template_file.name)


@contextmanager
def stubbed(service: str) -> Iterator[Any]:
    """A client whose `stub` answers; each call is checked against the service's model."""
    import boto3
    from botocore.stub import Stubber

    client = boto3.session.Session("x", "x", region_name="eu-central-1").client(service)
    with Stubber(client) as client.stub:
        yield client
        client.stub.assert_no_pending_responses()


def findings(folder: Path) -> list[tuple[str, str]]:
    """Return the findings of both rule packs: the rule and the path of the construct."""
    report = json.loads((folder / "validation-report.json").read_text("utf-8"))
    return [
        (violation["ruleName"], construct["constructPath"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


@pytest.fixture(scope="session", params=ENVIRONMENTS)
def template(request: pytest.FixtureRequest, assembly: Path) -> Template:
    return Template(assembly, request.param)


@pytest.fixture(scope="session")
def dev(assembly: Path) -> Template:
    return Template(assembly, "dev")


@pytest.fixture(scope="session")
def staging(assembly: Path) -> Template:
    return Template(assembly, "staging")


@pytest.fixture(scope="session")
def prod(assembly: Path) -> Template:
    return Template(assembly, "prod")


@pytest.fixture(scope="session")
def bundles() -> Path:
    """`build/` with both targets, made when missing or stale (that needs the package index)."""
    from infra.package import BUILD, TARGETS, build

    for target in TARGETS:
        build(target)
    return BUILD


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of nobody, in the region of the environments."""
    be_a_role(monkeypatch)


@pytest.fixture
def aws(credentials: None) -> Iterator[Any]:
    """A session of an account that moto keeps in this process."""
    import boto3
    from moto import mock_aws

    with mock_aws():
        yield boto3.session.Session(region_name="eu-central-1")
