"""Word questions and ranking rules of the embedded index, by properties."""

import sqlite3

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docstokg.adapters.languages import searched
from docstokg.adapters.sqlite.index import best_rows, match_expression
from docstokg.domain.text.query_terms import MAX_WORDS, content_words
from docstokg.domain.text.words import STOP_WORDS


@given(st.text(max_size=400))
def test_questions_are_legal_expressions_of_quoted_words(text: str) -> None:
    expression = match_expression(searched(text, ()))
    words = content_words(text)
    assert (expression == "") == (not words)
    assert len(words) == len(set(words)) <= MAX_WORDS
    assert not STOP_WORDS & set(words)
    if expression:
        db = sqlite3.connect(":memory:")
        db.execute("CREATE VIRTUAL TABLE t USING fts5(a, b)")
        db.execute("SELECT * FROM t WHERE t MATCH ?", (expression,)).fetchall()
        db.close()


def test_words_keep_their_order_and_the_longest_survive() -> None:
    assert content_words("What is the role of HP:0001250 in Epilepsy, epilepsy?") == (
        "role", "hp", "0001250", "epilepsy",
    )  # fmt: skip
    tokens = [f"w{i}" for i in range(100)] + ["longest"]
    selected = content_words(" ".join(tokens))
    assert len(selected) == MAX_WORDS
    assert selected[-1] == "longest"
    assert content_words("what is the") == ()


@given(
    scores=st.lists(st.integers(-3, 3), max_size=40),
    size=st.integers(1, 12),
    floor=st.sampled_from([-9.0, 0.0]),
)
def test_the_best_rows_are_by_score_then_place(scores: list[int], size: int, floor: float) -> None:
    values = np.array(scores, dtype=np.float32)
    expected = sorted((-s, i) for i, s in enumerate(scores) if s > floor)[:size]
    assert best_rows(values, size, floor) == [place for _, place in expected]
