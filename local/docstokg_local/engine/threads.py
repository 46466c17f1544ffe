"""Branches and iterations side by side, each in a thread; what fails first halts the others."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait


class Halt:
    """Says whether a branch has to end, for its own sake or for that of what it is part of."""

    def __init__(self, around: Callable[[], bool] | None = None) -> None:
        self._around = around
        self._set = False

    def set(self) -> None:
        """Begin no further state."""
        self._set = True

    def __call__(self) -> bool:
        """Whether no further state may begin."""
        return self._set or (self._around is not None and self._around())


def side_by_side[T](
    jobs: Iterable[Callable[[], T]], at_once: int, halt: Halt
) -> Iterator[tuple[int, T]]:
    """Run jobs in `at_once` threads; give (place, result) as each ends.

    A job is taken from `jobs` when a thread is free for it. The first error sets `halt`, waits for
    the jobs that run and is raised then.
    """
    running: dict[Future[T], int] = {}
    with ThreadPoolExecutor(at_once, thread_name_prefix="asl") as pool:
        try:
            for place, job in enumerate(jobs):
                if len(running) == at_once:
                    yield from _ended(running)
                running[pool.submit(job)] = place
            while running:
                yield from _ended(running)
        except BaseException:
            halt.set()
            raise


def _ended[T](running: dict[Future[T], int]) -> list[tuple[int, T]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    return [(running.pop(future), future.result()) for future in done]
