"""What fits: token estimates, and the bytes a message takes on the wire."""

import json
from collections.abc import Iterable

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


def fitting(sizes: Iterable[int], budget: int) -> int:
    """Count how many leading items fit into `budget` together."""
    count = 0
    for size in sizes:
        budget -= size
        if budget < 0:
            break
        count += 1
    return count
