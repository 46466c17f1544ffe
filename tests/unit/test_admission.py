"""The gate: nobody waits in vain, nobody is begun in vain, and callers take turns."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest

from docstokg_local.server.admission import Gate, Gone, Overloaded, Shared, TooLate

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Line:
    """A gate whose work lasts until the test lets it go; it remembers what was begun."""

    def __init__(self, slots: int = 1, most_waiting: int = 64) -> None:
        self.gate = Gate(slots, most_waiting)
        self.begun: list[str] = []
        self.go = threading.Event()

    def ask(
        self,
        name: str,
        caller: str = "a",
        timeout_s: float = 3.0,
        gone: asyncio.Event | None = None,
        work: Callable[[], str] | None = None,
    ) -> asyncio.Task[str]:
        def wait() -> str:
            self.begun.append(name)
            self.go.wait(10)
            return name

        async def asked() -> str:
            left = asyncio.create_task(_left(gone or asyncio.Event()))
            try:
                return await self.gate.run(
                    work or wait,
                    caller=caller,
                    kind="k",
                    ends=time.monotonic() + timeout_s,
                    gone=left,
                )
            finally:
                left.cancel()

        return asyncio.create_task(asked())


async def _left(event: asyncio.Event) -> None:
    await event.wait()


async def test_one_caller_alone_may_use_everything() -> None:
    line = Line(slots=3)
    tasks = [line.ask(str(n)) for n in range(3)]
    await asyncio.sleep(0.2)
    assert sorted(line.begun) == ["0", "1", "2"]
    line.go.set()
    assert await asyncio.gather(*tasks) == ["0", "1", "2"]


async def test_what_cannot_be_answered_in_time_is_refused_at_once() -> None:
    line = Line()
    for _ in range(60):
        line.gate._of("k").learn(1.0)  # this work takes a second
    tasks = [line.ask(str(n), timeout_s=3.5) for n in range(6)]
    await asyncio.sleep(0.1)
    refused = [task for task in tasks if task.done()]
    assert len(refused) == 3  # one runs, two can still be answered behind it
    for task in refused:
        with pytest.raises(Overloaded) as exc:
            await task
        assert 1 <= exc.value.retry_after_s <= 4
    line.go.set()
    assert await asyncio.gather(*(t for t in tasks if t not in refused)) == ["0", "1", "2"]
    assert line.begun == ["0", "1", "2"]


async def test_what_waited_too_long_is_never_begun() -> None:
    line = Line()
    first = line.ask("first")
    second = line.ask("second", timeout_s=0.6)
    began = time.monotonic()
    with pytest.raises(Overloaded):
        await second
    assert time.monotonic() - began < 0.6
    line.go.set()
    assert await first == "first"
    await asyncio.sleep(0.05)
    assert line.begun == ["first"]


async def test_callers_take_turns_and_a_flood_gives_way() -> None:
    line = Line(slots=1, most_waiting=8)
    for _ in range(40):
        line.gate._of("k").learn(0.01)
    flood = [line.ask(f"a{n}") for n in range(12)]
    await asyncio.sleep(0.05)
    others = [line.ask(f"b{n}", caller="b") for n in range(2)]
    await asyncio.sleep(0.05)
    line.go.set()
    answers = await asyncio.gather(*flood, *others, return_exceptions=True)
    assert answers[-2:] == ["b0", "b1"]
    assert sum(isinstance(answer, Overloaded) for answer in answers) == 5
    # One of the flood may stand before each of the others, not all of it.
    assert line.begun.index("b0") <= 2
    assert line.begun.index("b1") <= 4


async def test_who_hung_up_loses_the_place() -> None:
    line = Line()
    gone = asyncio.Event()
    first, second = line.ask("first"), line.ask("second", gone=gone)
    third = line.ask("third")
    await asyncio.sleep(0.05)
    gone.set()
    with pytest.raises(Gone):
        await second
    line.go.set()
    assert await asyncio.gather(first, third) == ["first", "third"]
    assert line.begun == ["first", "third"]


async def test_an_answer_that_is_too_late_is_not_waited_for_and_keeps_its_slot() -> None:
    line = Line()
    late = line.ask("late", timeout_s=0.2)
    began = time.monotonic()
    with pytest.raises(TooLate):
        await late
    assert time.monotonic() - began < 1.0
    following = line.ask("following")
    await asyncio.sleep(0.05)
    assert line.begun == ["late"]
    line.go.set()
    assert await following == "following"


async def test_a_crash_is_the_callers_and_frees_the_slot() -> None:
    line = Line()

    def crash() -> str:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await line.ask("crash", work=crash)
    line.go.set()
    assert await line.ask("after") == "after"


async def test_all_who_ask_at_once_share_one_answer() -> None:
    runs = []

    def work() -> int:
        runs.append(1)
        time.sleep(0.1)
        return len(runs)

    shared = Shared(work, 0.3, "t")
    assert await asyncio.gather(*(shared() for _ in range(20))) == [1] * 20
    assert await shared() == 1
    await asyncio.sleep(0.35)
    assert await shared() == 2


async def test_what_would_be_answered_in_part_is_refused_at_once() -> None:
    """Work of a tenth of a second, half a second left: the graph's step would be given nothing."""
    line = Line()
    for _ in range(60):
        line.gate._of("k").learn(0.1)
    first = line.ask("first")
    await asyncio.sleep(0.05)
    with pytest.raises(Overloaded):
        await line.ask("second", timeout_s=0.5)
    third = line.ask("third", timeout_s=1.0)
    await asyncio.sleep(0.05)
    line.go.set()
    assert await asyncio.gather(first, third) == ["first", "third"]
    assert line.begun == ["first", "third"]


async def test_hopeless_requests_are_known_before_anything_is_prepared() -> None:
    line = Line(most_waiting=2)
    soon = time.monotonic() + 0.3
    line.gate.expect(caller="a", kind="k", ends=soon)  # nobody is ahead of it
    tasks = [line.ask(str(n), timeout_s=9.0) for n in range(3)]
    await asyncio.sleep(0.05)
    with pytest.raises(Overloaded):
        line.gate.expect(caller="a", kind="k", ends=soon)
    late = time.monotonic() + 9
    with pytest.raises(Overloaded):  # the queue is full, and all of it is this caller's
        line.gate.expect(caller="a", kind="k", ends=late)
    line.gate.expect(caller="b", kind="k", ends=late)  # the longest queue would give way
    line.go.set()
    assert await asyncio.gather(*tasks) == ["0", "1", "2"]
