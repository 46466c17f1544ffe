import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from docstokg.domain import mmr, near_duplicates
from docstokg.domain.vectors import matrix, pack, quantise


def textbook(relevance, rows, count):
    """Quadratic MMR on the same scales, as an oracle."""
    best = max(relevance) or 1.0
    picked: list[int] = []
    while len(picked) < min(count, len(relevance)):

        def value(i: int) -> float:
            similar = 0.0
            for j in picked:
                if rows[i] is not None and rows[j] is not None:
                    similar = max(similar, 0.0, (float(rows[i] @ rows[j]) - 0.7) / 0.3)
            return 0.7 * relevance[i] / best - 0.3 * similar

        left = [i for i in range(len(relevance)) if i not in picked]
        picked.append(max(left, key=lambda i: (round(value(i), 9), -i)))
    return picked


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 24), st.integers(1, 30))
def test_incremental_equals_textbook(seed, size, count) -> None:
    random = np.random.default_rng(seed)
    relevance = sorted(random.random(size).round(3).tolist(), reverse=True)
    centres = random.normal(size=(3, 8))
    vectors = [
        None
        if random.random() < 0.1
        else quantise(pack(centres[random.integers(3)] + 0.2 * random.normal(size=8)))
        for _ in range(size)
    ]
    rows = [None if v is None else matrix([v])[0] for v in vectors]
    assert mmr.select(relevance, vectors, count) == textbook(relevance, rows, count)


def test_repeats_are_dropped_first_one_stays() -> None:
    one, near, far = (quantise(pack(v)) for v in ([1, 0], [1, 0.1], [0, 1]))
    items = [
        ("u1", "h1", one, "It is 9 m high."), ("u2", "h2", near, "Its height: 9 m."),
        ("u1", "h3", far, ""), ("u4", "h1", None, ""), ("u5", "h5", far, ""),
        ("u6", "h6", None, ""), ("u7", "h7", near, "It is 8 m high."),
        ("u8", "h8", near, "It is not 9 m high."),
    ]  # fmt: skip
    assert near_duplicates.without_repeats(items) == [0, 4, 5, 6, 7]
    assert near_duplicates.without_repeats([]) == []
