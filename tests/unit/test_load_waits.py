"""Loads of changed sources in virtual time: when they start, and how failed ones are repeated."""

import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from docstokg.observability import Telemetry
from docstokg.ports import LoadRun
from docstokg_functions.documents import source_loads
from docstokg_functions.documents.source_loads import QUIET_S, WAITS_S, SourceLoads

DAY_S, HOUR_S = 86_400, 3_600
LATEST_S = 600
START_S = 1_800_000_000


def never(now: float) -> bool:
    return False


class VirtualCloud:
    """Scheduler and loading machine whose clock a test sets; loads last `load_s`."""

    def __init__(self, load_s: int, down: Callable[[float], bool] = never) -> None:
        self.now = float(START_S)
        self.starts: dict[str, float] = {}
        self.failed: dict[str, float] = {}
        self.arguments: dict[str, Mapping[str, Any]] = {}
        self.counts: list[str] = []
        self._load_s, self._down = load_s, down
        self._schedules: dict[str, tuple[float, Mapping[str, Any]]] = {}
        telemetry = Telemetry(write=lambda line: None)
        telemetry.count = lambda name, value=1.0, **_: self.counts.append(name)  # type: ignore[method-assign]
        self.loads = SourceLoads(self, "bucket", telemetry)

    def time(self) -> float:
        return self.now

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.starts.setdefault(name, self.now)
        self.arguments[name] = arguments
        if self._down(self.now):
            self.failed[name] = self.now

    def call_later(
        self, name: str, after_s: float, function: str, event: Mapping[str, Any]
    ) -> None:
        assert after_s > 0
        self._schedules[name] = (self.now + after_s, event)

    def scheduled(self, name: str) -> Mapping[str, Any] | None:
        schedule = self._schedules.get(name)
        return None if schedule is None else schedule[1]

    def stop(self, name: str) -> None:
        raise NotImplementedError

    def find(self, name: str) -> LoadRun | None:
        if name not in self.arguments:
            return None
        return LoadRun(self.arguments[name], True, name in self.failed)

    def unfinished(self) -> Mapping[str, float]:
        return {
            name: at
            for name, at in self.starts.items()
            if name not in self.failed and self.now < at + self._load_s
        }

    def seconds(self) -> list[float]:
        """Return the seconds of the starts."""
        return sorted(at - START_S for at in self.starts.values())

    def _notify(self, **detail: Any) -> None:
        self.loads.changed([{"body": json.dumps({"detail": detail})}], "function")

    def run(self, changes: list[int], until: float) -> None:
        """Deliver changes at their seconds, call due schedules, report failed runs."""
        waiting, reported = [START_S + second for second in changes], set[str]()
        while True:
            due = [at for at, _ in self._schedules.values()]
            moments = [*waiting[:1], *due]
            if not moments or min(moments) > START_S + until:
                return
            self.now = max(self.now, min(moments))
            if waiting and waiting[0] <= self.now:
                waiting.pop(0)
                self._notify(object={"key": "sources/default/a.md"})
            for name in [n for n, (at, _) in self._schedules.items() if at <= self.now]:
                _, event = self._schedules.pop(name)
                self.loads.load(event, "function")
            for name in self.failed.keys() - reported:
                reported.add(name)
                self._notify(executionArn="arn", name=name)


type Clouds = Callable[..., VirtualCloud]


@pytest.fixture
def cloud_of(monkeypatch: pytest.MonkeyPatch) -> Clouds:
    def make(load_s: int = 90, down: Callable[[float], bool] = never) -> VirtualCloud:
        cloud = VirtualCloud(load_s, down)
        monkeypatch.setattr(source_loads, "time", cloud)
        return cloud

    return make


@pytest.mark.parametrize("every_s", [10, 30, 55, 59, 65, 7_200])
def test_changes_of_every_rate_are_loaded_in_time(cloud_of: Clouds, every_s: int) -> None:
    """A minute after the last change, at the latest ten after the first that is not loaded."""
    cloud, load_s = cloud_of(), 90
    changes = list(range(0, DAY_S, every_s))
    cloud.run(changes, DAY_S + HOUR_S)
    starts = cloud.seconds()
    assert len(starts) >= min(len(changes), DAY_S // (LATEST_S + load_s))
    before = -1.0
    for start in starts:
        first, *_ = covered = [change for change in changes if before < change <= start]
        assert start - first <= LATEST_S
        early = start - first < LATEST_S - QUIET_S - every_s
        assert start >= covered[-1] + QUIET_S or not early
        before = start
    assert before >= changes[-1]


def test_changes_during_a_long_load_await_its_end(
    cloud_of: Clouds,
) -> None:
    cloud = cloud_of(load_s=HOUR_S)
    cloud.run([0, *range(100, HOUR_S, 50)], 3 * HOUR_S)
    first, second = cloud.seconds()
    assert first == QUIET_S
    assert HOUR_S + first <= second <= HOUR_S + first + QUIET_S


@pytest.mark.parametrize("changes", [[0], list(range(0, 2 * HOUR_S, 45))])
def test_a_load_that_fails_is_tried_three_times(cloud_of: Clouds, changes: list[int]) -> None:
    """Changes in between neither shorten nor lengthen the growing waits; then it is an alarm."""
    cloud = cloud_of(down=lambda now: now < START_S + 2 * HOUR_S)
    cloud.run(changes, 75 * 60)
    waits = [later - sooner for sooner, later in pairwise(cloud.seconds())]
    assert waits == list(WAITS_S)
    assert cloud.counts == ["ingest_given_up_total"]


def test_a_store_returning_within_an_hour_is_loaded(
    cloud_of: Clouds,
) -> None:
    cloud = cloud_of(down=lambda now: now < START_S + HOUR_S)
    cloud.run([0], 3 * HOUR_S)
    assert len(cloud.starts) == len(WAITS_S) + 1
    assert len(cloud.failed) == len(WAITS_S)
    assert cloud.counts == []
