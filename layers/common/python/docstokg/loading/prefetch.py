"""Values computed ahead of use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future


def prefetched[Key, Value](
    pool: Executor, fetch: Callable[[Key], Value], keys: Iterable[Key], limit: int
) -> Iterator[tuple[Key, Value]]:
    """Yield keys with fetched values in order, with up to `limit` fetches in flight."""
    waiting: deque[tuple[Key, Future[Value]]] = deque()
    for key in keys:
        waiting.append((key, pool.submit(fetch, key)))
        if len(waiting) >= limit:
            first, coming = waiting.popleft()
            yield first, coming.result()
    for first, coming in waiting:
        yield first, coming.result()
