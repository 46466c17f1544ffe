"""Uploads that a finished run deletes, and objects that it must keep."""

import json
import os
import time
from pathlib import Path

import pytest

from docstokg.adapters.folder_objects import FolderObjects
from docstokg.contracts.ingest import IngestRun
from docstokg.loading.run.erasure import LONGEST_RUN_S, erase

SENT = {
    "old": ("a.md", "b.md"),  # ended with a report
    "waiting": ("a.md",),  # sent, not loaded yet
    "new": ("a.md", "bad.md"),  # the run that ends now
}


@pytest.fixture
def objects(tmp_path: Path) -> FolderObjects:
    bucket = FolderObjects(tmp_path)
    for job, doc_ids in SENT.items():
        bucket.put(f"posted/default/{job}.json", b"{}")
        for doc_id in doc_ids:
            bucket.put(f"inbox/default/{job}/{doc_id}", b"text")
    bucket.put("inbox/other/old/a.md", b"of another namespace")
    bucket.put("runs/old/report.json", b"{}")
    for kind in ("rows", "vectors", "models", "names", "resolved"):
        bucket.put(f"runs/new/{kind}/0001", b"text")
    bucket.put("runs/new/report.json", json.dumps({"rejected": []}).encode())
    return bucket


def posted(run_id: str) -> IngestRun:
    prefix = f"inbox/default/{run_id}/"
    return IngestRun(run_id=run_id, namespace="default", bucket="b", prefix=prefix)


def keys(objects: FolderObjects, prefix: str) -> list[str]:
    return [entry.key.removeprefix(prefix) for entry in objects.list(prefix)]


def test_newer_upload_replaces_the_earlier_one(objects: FolderObjects) -> None:
    erase(posted("new"), objects, (), {"bad.md"})
    assert keys(objects, "inbox/default/") == ["new/a.md", "old/b.md", "waiting/a.md"]
    assert keys(objects, "inbox/other/") == ["old/a.md"]
    assert keys(objects, "runs/new/") == ["report.json"]


def test_deletion_removes_every_upload_of_a_document(objects: FolderObjects) -> None:
    """But not where it was sent again and waits to be loaded."""
    erase(posted("gone"), objects, {"a.md", "b.md"}, ())
    assert keys(objects, "inbox/default/") == ["new/bad.md", "waiting/a.md"]
    assert "old.json" not in keys(objects, "posted/default/")
    assert "waiting.json" in keys(objects, "posted/default/")


def test_old_run_without_report_counts_as_closed(objects: FolderObjects, tmp_path: Path) -> None:
    past = time.time() - LONGEST_RUN_S - 60
    (old,) = tmp_path.rglob("waiting/a.md")
    os.utime(old, (past, past))
    erase(posted("gone"), objects, {"a.md"}, ())
    assert "waiting/a.md" not in keys(objects, "inbox/default/")


def test_second_erasure_changes_nothing(objects: FolderObjects) -> None:
    for _ in range(2):
        erase(posted("new"), objects, (), {"bad.md"})
    assert keys(objects, "inbox/default/") == ["new/a.md", "old/b.md", "waiting/a.md"]
