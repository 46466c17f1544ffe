"""Size budgets."""

import json
from collections.abc import Callable, Iterable

STATE_LIMIT_BYTES = 262_144
GROUNDED_LIMIT_BYTES = 200_000
# Maximum bytes of the graph view, if ground's output and the answer leave that much.
GRAPH_VIEW_LIMIT_BYTES = 60_000

# Bytes of a state reserved for key names, reasons and warnings.
STATE_MARGIN_BYTES = 4_096

# Bytes of a state reserved for ground's report, seeds and vector.
REPORT_MARGIN_BYTES = 12_288


def tokens(text: str) -> int:
    """Estimate tokens as ceil(UTF-8 bytes / 4)."""
    return -(-len(text.encode("utf-8")) // 4)


def nested_json_bytes(text: str) -> int:
    """Return the UTF-8 size in bytes of JSON `text` encoded again as a JSON string."""
    return len(json.dumps(text, ensure_ascii=False).encode())


def smaller[Item](
    items: list[Item], over: int, size: Callable[[Item], int], change: Callable[[Item], Item | None]
) -> int:
    """Shrink or drop (None) items in place, from the last, to save `over` bytes; return the rest.

    The rest is at most 0 if enough was saved.
    """
    for place in range(len(items) - 1, -1, -1):
        if over > 0:
            before, after = items[place], change(items[place])
            items[place : place + 1] = [] if after is None else [after]
            over -= size(before) - (0 if after is None else size(after))
    return over


def fitting(sizes: Iterable[int], budget: int) -> int:
    """Return the number of leading items that fit into `budget` together."""
    count = 0
    for size in sizes:
        budget -= size
        if budget < 0:
            break
        count += 1
    return count
