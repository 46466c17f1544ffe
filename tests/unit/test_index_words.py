"""Word questions and ranking rules of the embedded index, by properties."""

import sqlite3
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docstokg.adapters.sqlite.index import asked_words, best_rows, match_expression
from docstokg.adapters.sqlite.index_words import WordScores, WordTable
from docstokg.domain.text.query_terms import MAX_WORDS, content_words
from docstokg.domain.text.words import QUERY_STOP_WORDS


@given(st.text(max_size=400))
def test_every_question_is_a_legal_expression_of_quoted_words(text: str) -> None:
    expression = match_expression(asked_words(text))
    words = content_words(text)
    assert (expression == "") == (not words)
    assert len(words) == len(set(words)) <= MAX_WORDS
    assert not QUERY_STOP_WORDS & set(words)
    if expression:
        db = sqlite3.connect(":memory:")
        db.execute("CREATE VIRTUAL TABLE t USING fts5(a, b)")
        db.execute("SELECT * FROM t WHERE t MATCH ?", (expression,)).fetchall()
        db.close()


def test_words_keep_their_order_and_the_longest_survive() -> None:
    assert content_words("What is the role of HP:0001250 in Epilepsy, epilepsy?") == (
        "role",
        "hp",
        "0001250",
        "epilepsy",
    )
    many = [f"w{i}" for i in range(100)] + ["longest"]
    kept = content_words(" ".join(many))
    assert len(kept) == MAX_WORDS
    assert kept[-1] == "longest"
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


TABLE = WordTable("t", "3.0, 1.0", "first")
VOCABULARY = ("red", "reds", "blue", "green", "film", "films", "no")
TEXTS = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(" ".join)


def made(rows: Sequence[tuple[str, str]]) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5(a, b, tokenize = 'porter unicode61')")
    db.executemany(
        "INSERT INTO t (rowid, a, b) VALUES (?, ?, ?)", [(i, *r) for i, r in numbered(rows)]
    )
    return db


def numbered(rows: Sequence[tuple[str, str]]) -> list[tuple[int, tuple[str, str]]]:
    return [(7 + 3 * i, row) for i, row in enumerate(rows)]


def by_sqlite(db: sqlite3.Connection, words: Sequence[str], size: int) -> dict[int, float]:
    """Every row that scores no less than the last of the `size` best, as SQLite adds them up."""
    found = db.execute(
        "SELECT rowid, -bm25(t, 3.0, 1.0) AS s FROM t WHERE t MATCH ? ORDER BY s DESC",
        (match_expression(words),),
    ).fetchall()
    return {row: score for row, score in found if score >= found[:size][-1][1]}


@given(
    rows=st.lists(st.tuples(TEXTS, TEXTS), max_size=30),
    asked=st.lists(st.lists(st.sampled_from(VOCABULARY), min_size=1, unique=True), max_size=4),
    size=st.integers(16, 20),
    added=st.tuples(TEXTS, TEXTS),
)
def test_scores_kept_by_word_are_those_of_sqlite_to_the_last_bit(
    rows: list[tuple[str, str]], asked: list[list[str]], size: int, added: tuple[str, str]
) -> None:
    db, kept = made(rows), WordScores()
    for words in asked + asked:
        assert kept.best(db, TABLE, words, size) == by_sqlite(db, words, size)
    db.execute("INSERT INTO t (rowid, a, b) VALUES (1000, ?, ?)", added)
    db.commit()
    for words in asked:
        assert kept.best(db, TABLE, words, size) == by_sqlite(db, words, size)
    db.close()


def test_a_word_is_looked_up_once_until_the_table_or_its_load_is_another() -> None:
    db, kept = made([("red", "blue"), ("blue", "film")]), WordScores()
    looks: list[str] = []
    db.set_trace_callback(lambda text: looks.append(text) if "MATCH" in text else None)

    def looked_up(*words: str, table: WordTable = TABLE) -> int:
        looks.clear()
        kept.best(db, table, words, 10)
        return len(looks)

    assert looked_up("red", "blue") == 2
    assert looked_up("blue", "film", "red") == 1
    assert looked_up("blue", table=TABLE._replace(generation="second")) == 1
    db.execute("DELETE FROM t WHERE rowid = 7")
    assert looked_up("blue") == 1
    assert kept.best(db, TABLE, ["red"], 10) == {}
    db.close()


def test_what_is_kept_is_bounded_and_common_words_are_left_to_sqlite() -> None:
    db = made([("red", "")] * 50 + [("", f"w{i}") for i in range(50)])
    kept = WordScores(most_bytes=4_000, most_rows=30)
    assert kept.best(db, TABLE, ["red"], 100) is None
    assert kept.best(db, TABLE, ["w1", "red"], 100) is None
    for i in range(50):
        assert kept.best(db, TABLE, [f"w{i}"], 10) == by_sqlite(db, [f"w{i}"], 10)
    assert kept.held_bytes() <= 4_000
    assert WordScores().best(db, TABLE, ["red"], 20) is None, "50 equal ones, 20 wanted"
    db.execute("INSERT INTO t (rowid, a, b) VALUES (1000000000, 'w1', '')")
    assert WordScores().best(db, TABLE, ["w1"], 20) is None, "too far apart"
    db.close()
