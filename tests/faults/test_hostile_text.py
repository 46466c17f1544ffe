"""The texts that once held the interpreter for seconds take time linear in their length."""

from collections.abc import Callable

import pytest

from docstokg.domain.answer import citations, consistency, observations, parts
from docstokg.domain.graph import linking
from docstokg.domain.text import sentences, values, words
from tests.faults.growth import growth, seconds

LONG, SHORT = 65_536, 16_384
INSTANT_S = 0.1
LIMIT = 8  # times the time for four times the text: linear is 4, quadratic 16
TERMS = consistency.Ontology({"HP:0000118": consistency.Term(("phenotype",))})
QUESTION = 4000


def exchanged_cells(text: str) -> object:
    rows = [part for part in parts.parts(text) if part.fields]
    return observations.observations("The Lamp has a Price of 12 EUR.", [text], rows)


CASES: dict[str, tuple[Callable[[str], object], str, str]] = {
    "spaces after a line end": (sentences.sentence_spans, "A.\n", " "),
    "tabs after a line end": (sentences.sentence_spans, "A.\n", "\t"),
    "a source and spaces": (citations.find_markers, "[source", " "),
    "links that never end": (citations.find_markers, "", "[1](/"),
    "labels beside ids": (lambda text: consistency.check(text, TERMS), "", "HP:0000118 (a "),
    "accents out of order": (words.normalise, "a", "\u0301\u0323"),
    "numbers side by side": (values.values, "", "7 w "),
    "rows of one key": (exchanged_cells, "| Name | Price |\n|---|---|\n", "| Lamp | 7 EUR |\n"),
    "names side by side": (linking.Linker([("a", "X:1", True)]).find, "", "A-"),
}


@pytest.mark.parametrize("name", CASES)
def test_fourfold_text_takes_at_most_eightfold_time(name: str) -> None:
    work, before, unit = CASES[name]
    long, short = (before + unit * (size // len(unit)) + "x" for size in (LONG, SHORT))
    if seconds(work, long) > INSTANT_S:
        assert growth(work, long, short, LIMIT) < LIMIT
