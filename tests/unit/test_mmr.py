import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from docstokg.domain import mmr, near_duplicates
from docstokg.domain.vectors import matrix, pack, quantise


def textbook(relevance, rows, count, documents=()):
    """Quadratic MMR on the same scales, as an oracle."""
    counted = len({*documents} - {None}) >= 3
    best = max(relevance) or 1.0
    picked: list[int] = []
    while len(picked) < min(count, len(relevance)):

        def value(i: int) -> float:
            similar = 0.0
            for j in picked:
                if rows[i] is not None and rows[j] is not None:
                    similar = max(similar, 0.0, (float(rows[i] @ rows[j]) - 0.7) / 0.3)
            same = 0
            if counted and documents[i] is not None:
                same = sum(documents[j] == documents[i] for j in picked)
            return 0.7 * relevance[i] / best - 0.3 * similar - 0.06 * same

        others = [i for i in range(len(relevance)) if i not in picked]
        picked.append(max(others, key=lambda i: (round(value(i), 9), -i)))
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
    documents = [None if random.random() < 0.2 else f"d{random.integers(5)}" for _ in range(size)]
    expected = textbook(relevance, rows, count, documents)
    assert mmr.select(relevance, vectors, count, documents) == expected


DOCUMENTS = st.lists(st.sampled_from(["a", "b", "c", "d", None]), max_size=25)


@given(DOCUMENTS)
def test_spread_keeps_each_document_in_order(documents) -> None:
    order = mmr.spread(documents)
    assert sorted(order) == list(range(len(documents)))
    for document in {*documents} - {None}:
        places = [place for place in order if documents[place] == document]
        assert places == sorted(places)
    assert not order or order[0] == 0


@given(DOCUMENTS.filter(lambda documents: len({*documents} - {None}) >= 3))
def test_spread_brings_no_document_later(documents) -> None:
    order = [documents[place] for place in mmr.spread(documents)]
    for count in range(1, len(documents) + 1):
        assert len({*order[:count]} - {None}) >= len({*documents[:count]} - {None}) - (
            None in documents
        )


@given(st.lists(st.sampled_from(["a", "b", None]), max_size=25))
def test_two_documents_are_not_spread(documents) -> None:
    assert mmr.spread(documents) == list(range(len(documents)))


def test_third_document_enters_before_repeated_one() -> None:
    documents = ["a", "a", "a", "b", "c"]
    relevance = [1.0, 0.9, 0.85, 0.8, 0.7]
    assert mmr.select(relevance, [None] * 5, 3, documents) == [0, 1, 3]
    assert mmr.select(relevance, [None] * 5, 4, documents) == [0, 1, 3, 4]
    assert mmr.select(relevance, [None] * 5, 3) == [0, 1, 2]
    assert mmr.select(relevance, [None] * 5, 3, ["a", "a", None, "b", "c"]) == [0, 2, 1]


def test_document_ahead_by_a_margin_keeps_its_passages() -> None:
    documents = ["a", "a", "a", "b", "c"]
    assert mmr.select([1.0, 0.95, 0.9, 0.3, 0.2], [None] * 5, 3, documents) == [0, 1, 2]


def test_repeats_are_dropped_first_one_stays() -> None:
    unit, near, far = (quantise(pack(v)) for v in ([1, 0], [1, 0.1], [0, 1]))
    items = [
        ("u1", "h1", unit, "It is 9 m high."), ("u2", "h2", near, "Its height: 9 m."),
        ("u1", "h3", far, ""), ("u4", "h1", None, ""), ("u5", "h5", far, ""),
        ("u6", "h6", None, ""), ("u7", "h7", near, "It is 8 m high."),
        ("u8", "h8", near, "It is not 9 m high."), ("u9", "h9", near, "It is six m high."),
        ("v1", "i1", near, "It is 6 m high."),
    ]  # fmt: skip
    assert near_duplicates.without_repeats(items) == [0, 4, 5, 6, 7, 8]
    assert near_duplicates.without_repeats([]) == []
