"""A judge's quote must carry the claim that it supports."""

from collections.abc import Callable, Sequence

import pytest

from docstokg.domain.deadline import Deadline
from docstokg.domain.text.sentences import sentences
from docstokg.domain.text.snippets import coverage, question_stems
from docstokg.ports import Opinion, Pair
from docstokg.usecases.verification import Claim, verify
from tests.plans import call, soon
from tests.unit.test_forty_claims import TEXTS
from tests.workflow.test_cited_inventions import TOPICS

TRUE, FALSE = (
    [
        (topic["passage"], claim["text"])
        for topic in TEXTS
        for claim in topic["claims"]
        if claim["true"] is is_true
    ]
    for is_true in (True, False)
)
VALUES = [(topic["text"], claim) for topic in TOPICS for claim in topic["inventions"]]


def ranked(claim: str, passage: str) -> list[str]:
    """Return the sentences of a passage, the one with most words of the claim first."""
    stems = question_stems(claim)
    return sorted(sentences(passage), key=lambda text: -coverage(stems, text))


def supported(passage: str, claim: str, quotes: Sequence[str]) -> bool:
    """Return whether a judge's support with these quotes counts."""

    class Judge:
        name, threshold = "llm:judge", 0.5

        def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> list[Opinion]:
            return [Opinion(1.0, 0.0, tuple(quotes))]

    (decision,) = verify(call(), Judge(), [Claim(claim, (passage,))], soon()).decisions
    return decision is not None and decision.verdict == "supported"


def passing(
    claims: Sequence[tuple[str, str]], quotes_of: Callable[[str, str], list[str]]
) -> list[str]:
    """Return the claims that are supported with these quotes from their passages."""
    passed = [
        claim for passage, claim in claims if supported(passage, claim, quotes_of(passage, claim))
    ]
    print(len(passed), passed)
    return passed


def nearest(passage: str, claim: str) -> list[str]:
    return ranked(claim, passage)[:1]


def test_true_claims_with_fitting_quotes_stay_supported() -> None:
    assert len(TRUE) == 20
    assert len(passing(TRUE, lambda passage, claim: ranked(claim, passage)[:3])) >= 18


FORGED: dict[str, Callable[[str, str], list[str]]] = {
    "letter": lambda passage, claim: ["a"],
    "word": lambda passage, claim: ["of"],
    "part words": lambda passage, claim: [ranked(claim, passage)[0][2:-2]],
    "unrelated": lambda passage, claim: [ranked(claim, passage)[-1]],
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_quote_that_carries_nothing_supports_nothing(kind: str) -> None:
    assert not passing(FALSE, FORGED[kind])


def test_the_right_sentence_with_another_value_supports_seldom() -> None:
    assert len(passing(VALUES, nearest)) <= 2


def test_falsehoods_whose_quote_holds_every_value_are_counted() -> None:
    assert len(passing(FALSE, nearest)) <= 16
