"""Where the coefficients of what an answer needs come from can be printed again."""

import random

from benchmarks.near_misses import Case, fitted
from docstokg.domain.answer.extractive import Signs


def drawn(seed: int, count: int = 400) -> list[Case]:
    """Draw cases where worth and score count alike and an unnamed part speaks against."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        signs = Signs(*(rng.random() for _ in Signs._fields))
        value = signs.worth + signs.score - 2 * signs.unnamed
        made.append(Case(signs, value, value + rng.gauss(0, 0.2) > 0))
    return made


def test_the_regression_gives_each_sign_its_part_of_worth_and_each_set_its_value() -> None:
    sets = {"one": drawn(1), "other": drawn(2)}
    lines = fitted(sets).splitlines()
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in lines if "|" in line}
    assert rows.keys() >= {"all", "without one", "without other", "one", "other"}
    worth, score, titled, unnamed = (float(cell) for cell in rows["all"])
    assert worth == 1.0
    assert 0.8 < score < 1.2
    assert abs(titled) < 0.2
    assert -2.4 < unnamed < -1.6
    for name, cases in sets.items():
        refused = [case.certainty < float(rows[name][0]) for case in cases if case.answerable]
        assert sum(refused) <= 0.06 * len(refused)
