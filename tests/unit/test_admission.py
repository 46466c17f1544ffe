"""Admission: nobody waits in vain, nobody is begun in vain, one caller does not take it all."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from docstokg.domain.deadline import Deadline
from docstokg_local.server.admission import (
    Admission,
    ClientGone,
    CoalescedCall,
    Overloaded,
    TooLate,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Held:
    """An admission whose work lasts until the test ends it; `begun`: names of begun work."""

    def __init__(self, slots: int = 1, mean_s: float = 0.01) -> None:
        self.admission = Admission(slots)
        self.admission._mean_s = mean_s
        self.begun: list[str] = []
        self.go = threading.Event()

    def submit(
        self,
        name: str,
        caller: str = "a",
        timeout_s: float = 20.0,
        disconnect: asyncio.Event | None = None,
        work: Callable[[], str] | None = None,
        units: float = 1.0,
    ) -> asyncio.Task[str]:
        def wait() -> str:
            self.begun.append(name)
            self.go.wait(30)
            return name

        async def hang_up() -> None:
            await (disconnect or asyncio.Event()).wait()

        return asyncio.create_task(
            self.admission.run(
                work or wait,
                caller=caller,
                deadline=Deadline.after(timeout_s),
                hang_up=hang_up,
                units=units,
            )
        )

    async def until_begun(self, count: int) -> None:
        while len(self.begun) < count:
            await asyncio.sleep(0.01)


async def refusals(tasks: list[asyncio.Task[str]]) -> list[int]:
    """Return when to retry the refused requests, before any other ends."""
    await asyncio.sleep(0.05)
    retries = []
    for task in tasks:
        if task.done():
            with pytest.raises(Overloaded) as refused:
                await task
            retries.append(refused.value.retry_after_s)
    return retries


async def occupied() -> tuple[Held, asyncio.Task[str]]:
    """Return an admission whose only slot is taken, and the work in it."""
    admission = Held()
    first = admission.submit("first")
    await admission.until_begun(1)
    return admission, first


async def test_work_behind_a_large_unit_is_refused() -> None:
    """Short tasks taught the mean; the size of a long one is known before it runs."""
    admission = Held(slots=2, mean_s=0.2)
    running = [admission.submit(str(number), timeout_s=8.0, units=26.0) for number in range(2)]
    await admission.until_begun(2)
    tasks = [admission.submit(f"late {number}", timeout_s=8.0, units=26.0) for number in range(2)]
    assert await refusals(tasks) == [3, 3]
    admission.go.set()
    assert await asyncio.gather(*running) == ["0", "1"]


async def test_requests_without_enough_time_are_refused_unbegun() -> None:
    admission = Held(mean_s=1.0)
    tasks = [admission.submit(str(n), timeout_s=9.0) for n in range(6)]
    refused = await refusals(tasks)
    assert len(refused) == 3  # one runs, two wait; a third would wait more than its caller's share
    assert set(refused) <= {2, 3, 4}
    admission.go.set()
    admitted = [task for task in tasks if not task.done()]
    assert await asyncio.gather(*admitted) == admission.begun == ["0", "1", "2"]


async def test_a_rare_caller_is_admitted_beside_a_flood() -> None:
    admission = Held(mean_s=1.0)
    flood = [admission.submit(f"a{n}", timeout_s=9.0) for n in range(20)]
    await asyncio.sleep(0.05)
    other = admission.submit("b", caller="b", timeout_s=9.0)
    assert len(await refusals([*flood, other])) == 17
    admission.go.set()
    assert await other == "b"


async def test_what_waited_too_long_is_never_begun() -> None:
    admission, first = await occupied()
    second = admission.submit("second", timeout_s=0.5)
    with pytest.raises(Overloaded):
        await second
    admission.go.set()
    assert await first == "first"
    assert await admission.submit("third") == "third"
    assert admission.begun == ["first", "third"]


async def test_a_queued_request_that_cannot_start_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("docstokg_local.server.admission.LONGEST_WAIT_S", 0.2)
    admission, first = await occupied()
    second = admission.submit("second", timeout_s=60.0)
    async with asyncio.timeout(20):  # its own time is three times as long
        with pytest.raises(Overloaded):
            await second
    admission.go.set()
    assert await first == "first"


async def test_a_request_answerable_only_in_part_never_begins() -> None:
    admission = Held()
    first, second = admission.submit("first"), admission.submit("second", timeout_s=0.6)
    await asyncio.sleep(0.4)  # what is left now is less than the steps keep back for each other
    admission.go.set()
    with pytest.raises(Overloaded):
        await second
    assert await first == "first"
    assert admission.begun == ["first"]


async def test_who_hung_up_loses_the_place() -> None:
    admission, first = await occupied()
    hang_up = asyncio.Event()
    second, third = admission.submit("second", disconnect=hang_up), admission.submit("third")
    hang_up.set()
    with pytest.raises(ClientGone):
        await second
    admission.go.set()
    assert await asyncio.gather(first, third) == ["first", "third"]
    assert admission.begun == ["first", "third"]


async def test_late_work_is_abandoned_but_keeps_its_slot() -> None:
    admission = Held()
    late = admission.submit("late", timeout_s=0.2)
    with pytest.raises(TooLate):
        await late
    following = admission.submit("following")
    await asyncio.sleep(0.05)
    assert admission.begun == ["late"]
    admission.go.set()
    assert await following == "following"


async def test_crashes_reach_the_caller_and_free_the_slot() -> None:
    admission = Held()

    def crash() -> str:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await admission.submit("crash", work=crash)
    admission.go.set()
    assert await admission.submit("after") == "after"
    assert not admission.admission._admitted


async def test_all_who_ask_at_once_share_one_run() -> None:
    runs: list[int] = []
    go = threading.Event()

    def work() -> int:
        runs.append(1)
        go.wait(30)
        return len(runs)

    call = CoalescedCall(work, 0.3)
    tasks = [asyncio.create_task(call()) for _ in range(20)]
    await asyncio.sleep(0.05)
    go.set()
    assert await asyncio.gather(*tasks) == [1] * 20
    await asyncio.sleep(0.4)
    assert await call() == 2
