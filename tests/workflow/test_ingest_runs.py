"""The loading machine over the real stages: the content of one load, whatever dies on the way."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docstokg.loading.run.shard_manifest import NOT_READ
from tests.ingest_runner import run_ingest, stage_functions
from tests.unit.test_stages import NS, RUN, Place, folder_of
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


@pytest.mark.parametrize("how", ["its object is cut short", "its encoder has no memory"])
def test_a_broken_shard_costs_its_documents_and_no_other(
    tmp_path: Path, loaded: tuple[Path, tuple[str, str, str]], how: str
) -> None:
    folder, _ = loaded
    place = Place(tmp_path)
    place.upload(folder)
    assert run_machine(place, "whole").status == "SUCCEEDED"
    before = place.report("whole")
    for path in folder.rglob("*.md"):  # all are to be read again
        key = f"sources/{NS}/{path.relative_to(folder).as_posix()}"
        place.objects.put(key, place.objects.get(key) + b"\n")
    wiring = place.wiring()
    objects, functions = wiring.object_store(), stage_functions(wiring)
    encode, broken = functions["IngestEncodeFunction"], []

    def breaking(event: dict[str, Any], context: object) -> dict[str, Any]:
        key = event["items"][0]["Key"]
        broken[:] = broken or [key]
        if key == broken[0]:
            if "memory" in how:
                raise MemoryError
            objects.put(key, objects.get(key)[:-40])
        return encode(event, context)

    functions["IngestEncodeFunction"] = breaking
    run = {
        **{"run_id": RUN, "namespace": NS, "bucket": "folder", "sync": True, "writers": 1},
        **{"prefix": f"sources/{NS}/", "max_removed": 0, "remove": []},
    }
    done = run_ingest(functions, objects, run)
    wiring.close()
    assert done.status == "SUCCEEDED", (done.error, done.cause)
    told = {row["doc_id"]: row["reason"] for row in place.report()["rejected"]}
    wanted = "encoding its passages ended with MemoryError" if "memory" in how else NOT_READ
    lost = {doc_id for doc_id, reason in told.items() if wanted in reason}
    assert 2 <= len(lost) <= 40
    report = place.report()
    assert 0 < report["loaded"] < before["loaded"]
    assert report["removed"] == 0

    assert run_machine(place, "mended").status == "SUCCEEDED"
    assert place.report("mended")["loaded"] == before["loaded"]
    assert all(wanted not in row["reason"] for row in place.report("mended")["rejected"])
