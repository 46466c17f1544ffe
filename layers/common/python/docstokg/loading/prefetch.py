"""Fetch or compute values while earlier ones are used."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future


def prefetched[Key, Value](
    pool: Executor, fetch: Callable[[Key], Value], keys: Iterable[Key], most: int
) -> Iterator[tuple[Key, Value]]:
    """Yield each key with its fetched value, in order, with up to `most` values under way.

    A bucket answers after some 20 ms: one by one, that would be most of a task's time.
    """
    waiting: deque[tuple[Key, Future[Value]]] = deque()
    for key in keys:
        waiting.append((key, pool.submit(fetch, key)))
        if len(waiting) >= most:
            first, coming = waiting.popleft()
            yield first, coming.result()
    for first, coming in waiting:
        yield first, coming.result()
