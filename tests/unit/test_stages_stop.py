"""`resolve` and `close` are killed at any write, or run out of time: one content in the end.

`resolve` begins anew; `close` goes on where it stopped, as often as it has to.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstokg.errors import LoadError
from docstokg.loading.run.task_time import KEPT_S
from docstokg.loading.write import closing, edges
from tests.run_stages import Killed, Stages
from tests.unit.test_stages import (
    Place,
    changed,
    computed,
    each_shard,
    finish,
    folder_of,
    lines,
)

# A folder with a store, and the digest that its run ends in.
Before = tuple[Path, tuple[str, str, str]]
RUN = "second"
DOCUMENTS = 8
STEPS = ["gone", "edges", "earlier", "graph", "register", "index"]
MOST = 200
"""Writes of one task: more than `resolve` or `close` of these few documents make."""


class Left:
    """Lambda's context of an invocation that has so much time left."""

    def __init__(self, seconds: float) -> None:
        self._left_ms = int(seconds * 1000)

    def get_remaining_time_in_millis(self) -> int:
        return self._left_ms


OVER = Left(KEPT_S)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Before:
    """A store that holds one load, and a second run whose shards are read; the digest to end in.

    Documents changed, went and came, and what is new names what earlier chunks say.
    """
    source = folder_of(tmp_path_factory.mktemp("in") / "in", DOCUMENTS)
    laptop, place = (Place(tmp_path_factory.mktemp(name)) for name in ("laptop", "place"))
    first = place.stages("first")
    earlier = tmp_path_factory.mktemp("earlier")
    for number in range(DOCUMENTS):
        (earlier / f"trier{number}.md").write_text(f"# Note {number}\n\nA mill wheel of Trier.\n")
    for target in (laptop, place):
        target.load(earlier, prefix="earlier/")
    laptop.load(source)
    place.upload(source)
    computed(first, place)
    finish(first, place)
    changed(source)
    lines(source / "entities_more.jsonl", [{"id": "MILL:1", "name": "mill wheel"}])
    laptop.load(source, sync=True)
    place.upload(source)
    computed(place.stages(RUN, sync=True), place)
    return folder_in(place), laptop.digest()


@pytest.fixture(scope="module")
def resolved(before: Before, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, up to `close`."""
    place = copy(before[0], tmp_path_factory.mktemp("resolved"))
    stages = place.stages(RUN, sync=True)
    stages.call("resolve")
    each_shard(stages, place, "write")
    return folder_in(place)


def folder_in(place: Place) -> Path:
    return Path((place.settings.index_url or "").removeprefix("sqlite:///")).parent


def copy(folder: Path, into: Path) -> Place:
    shutil.copytree(folder, into, dirs_exist_ok=True)
    return Place(into)


def kills(folder: Path, into: Path, stage: str) -> Iterator[tuple[Stages, Place]]:
    """A fresh copy for each write of a stage, at which it was killed; ends where it was not."""
    for write in range(MOST):
        place = copy(folder, into / str(write))
        stages = place.stages(RUN, sync=True)
        stages.fuse.left = write
        try:
            stages.call(stage)
        except Killed:
            yield stages, place
            shutil.rmtree(into / str(write))
        else:
            return
    raise AssertionError(f"{stage} writes more than {MOST} times")


def test_resolve_killed_at_any_write_starts_again(before: Before, tmp_path: Path) -> None:
    folder, wanted = before
    count = 0
    for stages, place in kills(folder, tmp_path, "resolve"):
        finish(stages, place)
        assert place.digest() == wanted, count
        count += 1
    assert count > 5


def test_close_killed_at_any_write_resumes(before: Before, resolved: Path, tmp_path: Path) -> None:
    count = 0
    for stages, place in kills(resolved, tmp_path, "close"):
        assert stages.call("close")["done"]
        assert place.digest() == before[1], count
        count += 1
    assert count > 15


@pytest.mark.parametrize("twice", [False, True])
def test_close_out_of_time_returns_its_position(
    before: Before,
    resolved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    twice: bool,
) -> None:
    monkeypatch.setattr(edges, "ROW_BATCH", 1)
    monkeypatch.setattr(closing, "ROW_BATCH", 3)
    at_once, pieces = (copy(resolved, tmp_path / name) for name in ("whole", "pieces"))
    at_once.stages(RUN, sync=True).call("close")
    stages = pieces.stages(RUN, sync=True)
    stages.context = OVER
    steps, cursor = [], None
    for _ in range(MOST):
        reply = stages.call("close", cursor=cursor)
        if twice and cursor is not None and not reply["done"]:
            assert stages.call("close", cursor=cursor) == reply
        if reply["done"]:
            break
        cursor = reply["cursor"]
        steps.append(cursor["step"])
    assert list(dict.fromkeys(steps)) == STEPS
    assert len(steps) > 12
    assert pieces.digest() == at_once.digest() == before[1]
    assert pieces.report(RUN) == at_once.report(RUN)
    assert pieces.report(RUN)["relinked"] > 0


def test_resolve_out_of_time_writes_nothing(before: Before, tmp_path: Path) -> None:
    place = copy(before[0], tmp_path)
    content = place.digest()
    stages = place.stages(RUN, sync=True)
    stages.context = OVER
    with pytest.raises(LoadError, match="several namespaces, or with `docstokg load`"):
        stages.call("resolve")
    assert place.digest() == content
    stages.context = Left(900)
    finish(stages, place)
    assert place.digest() == before[1]
