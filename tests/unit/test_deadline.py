"""Time limits as values, on a clock that the tests set."""

import dataclasses
import math

import pytest

from docstokg.domain.deadline import Deadline


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("docstokg.domain.deadline.time.monotonic", lambda: now[0])
    return now


def test_remaining_time_falls_to_zero(clock: list[float]) -> None:
    deadline = Deadline.after(10)
    for now, seconds in ((100.0, 10.0), (107.5, 2.5), (110.0, 0.0), (120.0, 0.0)):
        clock[0] = now
        assert (deadline.remaining(), deadline.is_over()) == (seconds, not seconds)


@pytest.mark.parametrize(
    ("now", "cap_s", "reserve_s", "seconds"),
    [
        (100.0, 5.0, 0.0, 5.0),
        (107.0, 5.0, 0.25, 2.75),
        (109.9, 5.0, 0.25, 0.0),
        (111.0, 5.0, 0.0, 0.0),
        (100.0, math.inf, 0.5, 9.5),
    ],
)
def test_limit_caps_and_leaves_a_reserve(
    clock: list[float], now: float, cap_s: float, reserve_s: float, seconds: float
) -> None:
    deadline = Deadline.after(10)
    clock[0] = now
    assert deadline.limit(cap_s, reserve_s).remaining() == pytest.approx(seconds)


def test_share_is_a_part_of_the_remaining_time(clock: list[float]) -> None:
    deadline = Deadline.after(10)
    clock[0] = 105.0
    assert deadline.share(0.6).remaining() == pytest.approx(3.0)
    assert deadline.remaining() == 5.0


def test_deadline_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Deadline.after(1).at = 2.0  # type: ignore[misc]
