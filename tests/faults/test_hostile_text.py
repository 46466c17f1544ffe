"""The texts that once held the interpreter for seconds take time linear in their length."""

import time
from collections.abc import Callable

import pytest

from docstokg.domain.answer import citations, consistency
from docstokg.domain.graph import linking
from docstokg.domain.text import sentences, words

LONG, SHORT = 65_536, 32_768
INSTANT_S = 0.1
TERMS = consistency.Ontology({"HP:0000118": consistency.Term(("phenotype",))})
QUESTION = 4000
CASES: dict[str, tuple[Callable[[str], object], str, str]] = {
    "spaces after a line end": (sentences.sentence_spans, "A.\n", " "),
    "tabs after a line end": (sentences.sentence_spans, "A.\n", "\t"),
    "a source and spaces": (citations.find_markers, "[source", " "),
    "links that never end": (citations.find_markers, "", "[1](/"),
    "labels beside ids": (lambda text: consistency.check(text, TERMS), "", "HP:0000118 (a "),
    "accents out of order": (words.normalise, "a", "\u0301\u0323"),
    "names side by side": (linking.Linker([("a", "X:1", True)]).find, "", "A-"),
}


def seconds(work: Callable[[str], object], text: str) -> float:
    took = []
    for _ in range(2):
        began = time.thread_time()
        work(text)
        took.append(time.thread_time() - began)
    return min(took)


@pytest.mark.parametrize("name", CASES)
def test_twice_the_text_takes_at_most_thrice_the_time(name: str) -> None:
    work, before, unit = CASES[name]
    long = seconds(work, before + unit * (LONG // len(unit)) + "x")
    if long > INSTANT_S:
        assert long < 3 * seconds(work, before + unit * (SHORT // len(unit)) + "x")
