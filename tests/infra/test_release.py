"""The release workflow and the entry of the MCP registry: whatever shows without a tag."""

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from infra.specs import ROOT
from tests.builders import ran

FLOW: dict[Any, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
)
JOBS: dict[str, dict[str, Any]] = FLOW["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
ENTRY: dict[str, Any] = json.loads((ROOT / "server.json").read_text("utf-8"))
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
ARGUMENT = {
    "type": "object",
    "required": ["type", "value"],
    "properties": {"type": {"enum": ["named", "positional"]}, "value": {"type": "string"}},
    "if": {"properties": {"type": {"const": "named"}}},
    "then": {"required": ["name"]},
}
# The rules of the registry for an entry with an OCI image: the version is in its identifier.
SHAPE = {
    "type": "object",
    "required": ["$schema", "name", "description", "version", "packages"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"pattern": r"^https://.*/schemas/\d{4}-\d\d-\d\d/server\.schema\.json$"},
        "name": {"pattern": r"^io\.github\.[A-Za-z0-9-]+/[A-Za-z0-9._-]+$", "maxLength": 200},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"pattern": r"^\d+\.\d+\.\d+$"},
        "packages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["registryType", "identifier", "transport"],
                "additionalProperties": False,
                "properties": {
                    "registryType": {"const": "oci"},
                    "identifier": {"pattern": r"^ghcr\.io/[^/]+/[a-z0-9._-]+:[^:]+$"},
                    "runtimeHint": {"const": "docker"},
                    "transport": {"const": {"type": "stdio"}},
                    "runtimeArguments": {"type": "array", "items": ARGUMENT},
                    "packageArguments": {"type": "array", "items": ARGUMENT},
                },
            },
        },
    },
}


def test_the_registry_entry_has_declared_shape_and_version() -> None:
    jsonschema.Draft202012Validator(SHAPE).validate(ENTRY)
    assert ENTRY["version"] == VERSION
    (package,) = ENTRY["packages"]
    assert package["identifier"].endswith(f":v{VERSION}")
    entrypoint = 'ENTRYPOINT ["docstokg"]'
    assert entrypoint in (ROOT / "container" / "Containerfile").read_text("utf-8")


def test_only_a_version_tag_starts_a_release() -> None:
    assert FLOW[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}  # YAML reads `on` as true


def test_only_jobs_that_publish_may_prove_their_identity() -> None:
    assert FLOW["permissions"] == {"contents": "read"}
    granted = {name for name, job in JOBS.items() if "id-token" in job.get("permissions", {})}
    assert granted == {"index", "image", "site", "mcp-registry"}
    assert all(JOBS[name]["environment"] == "release" for name in granted)
    assert JOBS["install"]["needs"] == "build" and JOBS["install"]["strategy"] == {
        "matrix": {"python": ["3.12", "3.13", "3.14"]}
    }
    assert JOBS["index"]["needs"] == JOBS["image"]["needs"] == "install"
    assert "secrets." not in json.dumps(JOBS)


def test_actions_have_versions_and_the_image_an_sbom() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used and all(re.fullmatch(r"[\w./-]+@(v\d+|release/v1)", action) for action in used)
    (image,) = [step for step in STEPS if step.get("uses", "").startswith("docker/build-push")]
    assert image["with"]["sbom"] is True and image["with"]["provenance"] == "mode=max"
    assert image["with"]["file"] == "container/Containerfile"


def test_the_changelog_has_this_version() -> None:
    assert f"\n## v{VERSION}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_wheel_gets_the_address_of_the_repository(tmp_path: Path) -> None:
    (step,) = [
        step for step in STEPS if step.get("name") == "Write the addresses of the repository"
    ]
    project = tmp_path / "pyproject.toml"
    project.write_bytes((ROOT / "pyproject.toml").read_bytes())
    names = {
        "GITHUB_SERVER_URL": "https://git.example",
        "GITHUB_REPOSITORY": "somebody/docstokg",
        "GITHUB_REF_NAME": f"v{VERSION}",
    }
    ran("sh", "-ec", step["run"], cwd=tmp_path, env=names, check=True)
    urls = tomllib.loads(project.read_text("utf-8"))["project"]["urls"]
    assert urls == {
        "Repository": "https://git.example/somebody/docstokg",
        "Issues": "https://git.example/somebody/docstokg/issues",
        "Changelog": f"https://git.example/somebody/docstokg/blob/v{VERSION}/CHANGELOG.md",
    }


def test_the_image_base_is_fixed_by_its_digest() -> None:
    (image,) = [step for step in STEPS if step.get("uses", "").startswith("docker/build-push")]
    assert image["with"]["build-args"] == "BASE=${{ env.BASE }}"
    stages = re.findall(
        "^FROM (\\S+)", (ROOT / "container" / "Containerfile").read_text("utf-8"), re.MULTILINE
    )
    assert stages == ["$BASE", "$BASE"]


@pytest.mark.slow
def test_the_site_has_no_dead_links(tmp_path: Path) -> None:
    """The site is built, and a link to a missing page ends its build."""
    mkdocs = ran(str(ROOT / "scripts" / "find-tool"), "site", "mkdocs").stdout.strip()
    copied = tmp_path / "checkout"
    shutil.copytree(ROOT / "docs", copied / "docs")
    (copied / "scripts").mkdir()
    for name in ("mkdocs.yml", "scripts/site_links.py"):
        shutil.copy(ROOT / name, copied / name)
    built = ran(mkdocs, "build", "--strict", cwd=copied)
    assert built.returncode == 0, built.stderr[-2000:]
    assert (copied / "build" / "site" / "tutorial" / "index.html").is_file()
    with (copied / "docs" / "tutorial.md").open("a", encoding="utf-8") as page:
        page.write("\n[Missing](missing.md)\n")
    broken = ran(mkdocs, "build", "--strict", cwd=copied)
    assert broken.returncode != 0 and "missing.md" in broken.stderr
