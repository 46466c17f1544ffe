"""Objects created at start-up are excluded from later garbage collections."""

import gc
from collections.abc import Iterator

import pytest

from docstokg.entry import GARBAGE_AFTER, freeze_garbage


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def test_frozen_objects_are_not_scanned() -> None:
    lists = [[number] for number in range(1000)]
    freeze_garbage()
    assert gc.get_freeze_count() > len(lists)
    assert gc.get_threshold()[0] == GARBAGE_AFTER
    assert not any(item is lists for item in gc.get_objects())
