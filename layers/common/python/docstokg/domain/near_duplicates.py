"""Near-duplicate removal."""

from collections.abc import Sequence
from itertools import compress

from docstokg.domain.text.values import quantities
from docstokg.domain.vectors import matrix

NEAR = 0.95


def without_repeats(items: Sequence[tuple[str, str, bytes | None, str]]) -> list[int]:
    """Return the positions of the first chunk of each group of equal or nearly equal chunks.

    `items`: (uuid, text hash, int8 vector or None, text) in rank order. Near-equal: cosine >= 0.95
    with a kept chunk, and the same numbers and negations.
    """
    positions: list[int] = []
    seen: set[str] = set()
    having = [position for position, item in enumerate(items) if item[2] is not None]
    row = {position: index for index, position in enumerate(having)}
    rows = matrix([item[2] for item in items if item[2] is not None])
    cosines = rows @ rows.T if having else rows
    kept_rows: list[int] = []
    for position, (uuid, text_hash, _, text) in enumerate(items):
        if uuid in seen or text_hash in seen:
            continue
        index = row.get(position)
        if index is not None:
            near = compress(kept_rows, cosines[index, kept_rows] >= NEAR)
            if any(quantities(items[having[other]][3]) == quantities(text) for other in near):
                continue
        seen.update((uuid, text_hash))
        positions.append(position)
        if index is not None:
            kept_rows.append(index)
    return positions
