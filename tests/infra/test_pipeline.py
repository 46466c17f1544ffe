"""The one workflow file builds once and carries the same bundles through the environments."""

import re
from typing import Any

import yaml

from infra.settings import ENVIRONMENTS
from tests.infra.conftest import ROOT

FILE = ROOT / ".github" / "workflows" / "deliver.yml"
WORKFLOW: dict[str, Any] = yaml.safe_load(FILE.read_text("utf-8"))
JOBS: dict[str, Any] = WORKFLOW["jobs"]


def commands(job: str) -> str:
    return "\n".join(step.get("run", "") for step in JOBS[job]["steps"])


def uses(job: str) -> list[str]:
    return [step["uses"].split("@")[0] for step in JOBS[job]["steps"] if "uses" in step]


def test_bundles_are_built_once_and_promoted() -> None:
    assert [name for name in JOBS if "make package" in commands(name)] == ["build"]
    assert "actions/upload-artifact" in uses("build")
    order = ["test", "build", *ENVIRONMENTS]
    assert [JOBS[name].get("needs") for name in order] == [None, *order[:-1]]
    for name in ENVIRONMENTS:
        assert "actions/download-artifact" in uses(name)
        assert JOBS[name]["environment"] == JOBS[name]["env"]["TARGET"] == name
        order = [commands(name).find(word) for word in ("make rollout", "make prune")]
        assert order == sorted(order)
        assert order[0] >= 0
        assert JOBS[name]["permissions"]["id-token"] == "write"


def test_only_main_deploys_from_a_file_without_keys() -> None:
    for name in ("build", *ENVIRONMENTS):
        assert JOBS[name]["if"] == "github.ref == 'refs/heads/main'"
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert not re.search(r"AKIA|aws[_-]secret", FILE.read_text("utf-8"), re.I)


def test_the_session_lasts_as_long_as_the_job() -> None:
    """By itself it is an hour, and a first deploy of prod takes longer."""
    for name in ENVIRONMENTS:
        (signing,) = (s for s in JOBS[name]["steps"] if "configure-aws" in s.get("uses", ""))
        assert signing["with"]["role-duration-seconds"] >= JOBS[name]["timeout-minutes"] * 60


def test_a_failing_smoke_test_shifts_traffic_back() -> None:
    """By `make rollout` (test_rollout); its token is minted in it: a stored one would expire."""
    for name in ENVIRONMENTS:
        (step,) = (step for step in JOBS[name]["steps"] if "make rollout" in step.get("run", ""))
        assert "secrets.CLIENT_SECRET" in step["env"]["SMOKE_CLIENT_SECRET"]
        assert "SMOKE_TOKEN" not in step["env"]


def test_own_settings_need_no_fork() -> None:
    """Every job that reads them writes the repository's variable into the file before."""
    assert WORKFLOW["env"]["SETTINGS"] == "${{ vars.ENVIRONMENTS }}"
    assert "environments.toml" in WORKFLOW["env"]["ENVIRONMENTS"]
    for name in ("test", *ENVIRONMENTS):
        write_position, read_position = (
            commands(name).find(word) for word in ('> "$ENVIRONMENTS"', "make ")
        )
        assert 0 < write_position < read_position
