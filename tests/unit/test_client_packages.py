"""The plain client runs with the packages that it declares, and with no other."""

import subprocess
import sys
from collections.abc import Collection
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

import docstokg

PROGRAM = """
import sys
sys.path[:0] = [sys.argv[1]]
from docstokg.client import Client, ProblemError
from docstokg.errors import DocsToKGError
with Client("http://127.0.0.1:9") as client:
    try:
        client.search("Where is the kiln?")
    except DocsToKGError as refused:
        print(type(refused).__name__)
"""


def declared(name: str, extras: Collection[str], into: dict[str, Distribution]) -> None:
    """Collect the distributions that a package needs, itself included."""
    package = distribution(name)
    into[name] = package
    for line in package.requires or ():
        requirement = Requirement(line)
        marker = requirement.marker
        needed = not marker or any(marker.evaluate({"extra": extra}) for extra in (*extras, ""))
        if needed and requirement.name not in into:
            declared(requirement.name, requirement.extras, into)


def test_client_runs_with_its_declared_packages_alone(tmp_path: Path) -> None:
    packages: dict[str, Distribution] = {}
    declared("docstokg", ["client"], packages)
    assert "urllib3" in packages and "aws-lambda-powertools" not in packages
    for name, package in packages.items():
        top = {file.parts[0] for file in package.files or () if file.parts[0] != ".."}
        for entry in top if name != "docstokg" else ():
            if not (tmp_path / entry).exists():
                (tmp_path / entry).symlink_to(str(package.locate_file(entry)))
    (tmp_path / "docstokg").symlink_to(Path(docstokg.__file__).parent)
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "NeverSent\n"), done.stderr
