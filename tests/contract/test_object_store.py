"""One suite for every object store: a folder, a bucket in moto's S3, and the tests' own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from docstokg.adapters.aws.s3_objects import S3Objects
from docstokg.adapters.folder_objects import UNFINISHED, FolderObjects
from docstokg.errors import Misconfigured
from docstokg.ports import ObjectStore
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from tests.memory_bucket import MemoryBucket
from tests.signatures import REGION, be_a_role

pytestmark = pytest.mark.filterwarnings("ignore")
PLACE = {"LocationConstraint": REGION}


@pytest.fixture(params=["folder", "s3", "memory"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObjectStore]:
    if request.param == "folder":
        yield FolderObjects(tmp_path / "objects")
    elif request.param == "memory":
        yield MemoryBucket()
    else:
        be_a_role(monkeypatch)
        with mock_aws():
            boto3.client("s3").create_bucket(Bucket="objects", CreateBucketConfiguration=PLACE)
            yield S3Objects("objects")


def test_a_written_object_is_readable_until_removed(store: ObjectStore) -> None:
    store.put("a/b.txt", b"one")
    assert store.get("a/b.txt") == b"one"
    store.put("a/b.txt", b"two")
    assert store.get("a/b.txt") == b"two"
    store.put("a/c.txt", b"")
    assert store.get("a/c.txt") == b""
    store.delete("a/b.txt")
    store.delete("a/b.txt")
    with pytest.raises(KeyError):
        store.get("a/b.txt")
    with pytest.raises(KeyError):
        store.get("a")


def test_delete_below_an_object_changes_nothing(store: ObjectStore) -> None:
    store.put("a", b"one")
    store.delete("a/b")
    assert store.get("a") == b"one"


def test_keys_are_listed_in_byte_order_with_metadata(store: ObjectStore) -> None:
    keys = ["p/a.txt", "p/a/b", "p/a-b", "p/ä", "p/z", "q/a", "p/\U0001f600", "p/ﬀ", "p/a/b c&d"]
    for place, key in enumerate(keys):
        store.put(key, b"x" * place)
    page = store.list("p/")
    assert [stored.key for stored in page] == sorted(
        (key for key in keys if key.startswith("p/")), key=str.encode
    )
    assert {stored.key: stored.size for stored in page} == {
        key: place for place, key in enumerate(keys) if key.startswith("p/")
    }
    assert all(stored.modified > 1 for stored in page)
    assert [stored.key for stored in store.list("p/", "p/a/b")] == [s.key for s in page][3:]
    assert [stored.key for stored in store.list("p/a")] == [
        "p/a-b",
        "p/a.txt",
        "p/a/b",
        "p/a/b c&d",
    ]
    assert store.list("nothing/") == []


def test_an_etag_follows_the_content_alone(store: ObjectStore) -> None:
    etags = []
    for body in (b"one", b"two", b"one"):
        store.put("a", body)
        etags.append(store.list("")[0].etag)
    assert etags[0] == etags[2] != etags[1]
    assert '"' not in etags[0]


def test_a_list_goes_on_after_a_thousand(store: ObjectStore) -> None:
    for number in range(1003):
        store.put(f"p/{number:04}", b"")
    first = store.list("p/")
    assert len(first) == 1000
    assert [s.key for s in store.list("p/", first[-1].key)] == ["p/1000", "p/1001", "p/1002"]


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/passwd", "a//b", ".", "a\0b", ""])
def test_a_key_never_leads_out_of_the_folder(key: str, tmp_path: Path) -> None:
    store = FolderObjects(tmp_path / "objects")
    for call in (lambda: store.get(key), lambda: store.put(key, b"x"), lambda: store.delete(key)):
        with pytest.raises(KeyError):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["objects"]


def test_a_broken_write_keeps_the_old_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderObjects(tmp_path)
    store.put("a", b"before")

    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        store.put("a", b"after")
    assert store.get("a") == b"before"
    assert [stored.key for stored in store.list("")] == ["a"]
    assert list((tmp_path / UNFINISHED).iterdir()) == []


def test_the_setting_names_a_folder_or_a_bucket(tmp_path: Path) -> None:
    def chosen(url: str) -> ObjectStore:
        return Wiring(Settings(ingest_url=url)).object_store()

    assert isinstance(chosen(f"file://{tmp_path}/new"), FolderObjects)
    assert (tmp_path / "new").is_dir()
    assert isinstance(chosen("s3://name"), S3Objects)
    for wrong in ("file://relative", "folder", "https://host/x"):
        with pytest.raises(Misconfigured, match="file:///FOLDER"):
            chosen(wrong)
    (tmp_path / "file").write_text("x")
    with pytest.raises(Misconfigured, match="cannot hold objects"):
        chosen(f"file://{tmp_path}/file")
