"""The loading machine over the real stages: the content of one load, whatever dies on the way."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_stages import RUN, Place, folder_of
from tests.workflow.ingest_process import run_machine

DEATHS = (("names", "2", "after"), ("write", "1", "after"), ("close", "1", "before"))


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, str, str]]:
    """Sixty documents and what goes with them, and the digest of one load of them."""
    folder = folder_of(tmp_path_factory.mktemp("in"), 60)
    laptop = Place(tmp_path_factory.mktemp("laptop"))
    laptop.load(folder)
    return folder, laptop.digest()


def test_the_machine_ends_in_the_content_of_one_load(
    tmp_path: Path, loaded: tuple[Path, tuple[str, str, str]]
) -> None:
    folder, digest = loaded
    place = Place(tmp_path)
    place.upload(folder)
    assert run_machine(place, RUN).status == "SUCCEEDED"
    assert place.digest() == digest
    rejected = {row["doc_id"]: row["reason"] for row in place.report()["rejected"]}
    assert rejected["poisoned.md"] == "NUL character in line 3"

    assert run_machine(place, "second").status == "SUCCEEDED"
    assert place.digest() == digest
    place.objects.delete("sources/default/part1/report001.md")
    assert run_machine(place, "third").status == "SUCCEEDED"
    assert place.report("third")["removed"] == 1
    assert place.digest() != digest


def test_three_times_killed_and_run_again_it_ends_in_the_same(
    tmp_path: Path, loaded: tuple[Path, tuple[str, str, str]]
) -> None:
    folder, digest = loaded
    place = Place(tmp_path)
    place.upload(folder)
    command = [sys.executable, "-m", "tests.workflow.ingest_process", str(tmp_path), RUN]
    for death in DEATHS:
        ended = subprocess.run([*command, *death], capture_output=True, timeout=300, check=False)
        assert ended.returncode == -signal.SIGKILL, (death, ended.stderr)
    ended = subprocess.run(command, capture_output=True, timeout=300, check=True)
    assert ended.stdout.splitlines()[-1] == b"SUCCEEDED"
    assert place.digest() == digest
    assert "poisoned.md" in {row["doc_id"] for row in place.report()["rejected"]}
