"""What is fetched or computed while the one before it is worked on."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

AHEAD = 8
"""Objects that are fetched at once, which are held in memory as well."""


def ahead[Key, Value](
    fetch: Callable[[Key], Value], keys: Iterable[Key], most: int = AHEAD, threads: int = AHEAD
) -> Iterator[tuple[Key, Value]]:
    """Yield each key with what is fetched for it, in order, up to `most` under way meanwhile.

    A bucket answers after some 20 ms: one by one, that would be most of a task's time.
    """
    waiting: deque[tuple[Key, Future[Value]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for key in keys:
            waiting.append((key, pool.submit(fetch, key)))
            if len(waiting) >= most:
                first, coming = waiting.popleft()
                yield first, coming.result()
        for first, coming in waiting:
            yield first, coming.result()
