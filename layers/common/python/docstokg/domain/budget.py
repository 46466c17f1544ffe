"""What fits: token estimates, and the bytes a message takes on the wire."""

import json
from collections.abc import Callable, Iterable

STATE_LIMIT_BYTES = 262_144
GROUNDED_LIMIT_BYTES = 200_000
GRAPH_VIEW_LIMIT_BYTES = 60_000
"""Of the graph view, where what ground made and the answer to come leave that much."""

STATE_MARGIN_BYTES = 4_096
"""Of a state for the names of its parts, reasons and warnings."""

REPORT_MARGIN_BYTES = 12_288
"""Of a state for what ground says beside citations and blocks: its report, seeds, the vector."""


def tokens(text: str) -> int:
    """Estimate tokens as ceil(UTF-8 bytes / 4)."""
    return -(-len(text.encode("utf-8")) // 4)


def nested_json_bytes(text: str) -> int:
    """Count the UTF-8 bytes that JSON `text` takes once it is itself a JSON string."""
    return len(json.dumps(text, ensure_ascii=False).encode())


def smaller[Item](
    items: list[Item], over: int, size: Callable[[Item], int], change: Callable[[Item], Item | None]
) -> int:
    """Change items, or drop them (None), from the last one until `over` bytes are saved.

    Gives how many bytes are still to be saved.
    """
    for place in range(len(items) - 1, -1, -1):
        if over > 0:
            before, after = items[place], change(items[place])
            items[place : place + 1] = [] if after is None else [after]
            over -= size(before) - (0 if after is None else size(after))
    return over


def fitting(sizes: Iterable[int], budget: int) -> int:
    """Count how many leading items fit into `budget` together."""
    count = 0
    for size in sizes:
        budget -= size
        if budget < 0:
            break
        count += 1
    return count
