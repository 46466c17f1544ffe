"""A judge's quote must carry the claim that it supports."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from docstokg.domain.deadline import Deadline
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.snippets import coverage, question_stems
from docstokg.ports import Opinion, Pair
from docstokg.usecases.verification import Claim, verify
from tests.plans import call

TOPICS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("forty_claims.json").read_text("utf-8")
)
INVENTED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "workflow" / "cited_inventions.json").read_text("utf-8")
)
CLAIMS = [(topic["passage"], claim) for topic in TOPICS for claim in topic["claims"]]
VALUES = [(topic["text"], claim) for topic in INVENTED for claim in topic["inventions"]]


def sentences(passage: str) -> list[str]:
    return [passage[start:end] for start, end in sentence_spans(passage)]


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

    (decision,) = verify(call(), Judge(), [Claim(claim, (passage,))], Deadline.after(3.0)).decisions
    return decision is not None and decision.verdict == "supported"


def test_true_claims_with_fitting_quotes_stay_supported() -> None:
    true = [(passage, claim["text"]) for passage, claim in CLAIMS if claim["true"]]
    assert len(true) == 20
    lost = [claim for passage, claim in true
            if not supported(passage, claim, ranked(claim, passage)[:3])]  # fmt: skip
    print(lost)
    assert len(lost) <= 2


FORGED: dict[str, Callable[[str, str], list[str]]] = {
    "letter": lambda passage, claim: ["a"],
    "word": lambda passage, claim: ["of"],
    "part words": lambda passage, claim: [ranked(claim, passage)[0][2:-2]],
    "unrelated": lambda passage, claim: [ranked(claim, passage)[-1]],
}


@pytest.mark.parametrize("kind", FORGED)
def test_a_quote_that_carries_nothing_supports_nothing(kind: str) -> None:
    false = [(passage, claim["text"]) for passage, claim in CLAIMS if not claim["true"]]
    passed = [claim for passage, claim in false
              if supported(passage, claim, FORGED[kind](passage, claim))]  # fmt: skip
    print(passed)
    assert not passed


def test_the_right_sentence_with_another_value_supports_seldom() -> None:
    passed = [claim for passage, claim in VALUES
              if supported(passage, claim, ranked(claim, passage)[:1])]  # fmt: skip
    print(passed)
    assert len(passed) <= 2


def test_falsehoods_whose_quote_holds_every_value_are_counted() -> None:
    false = [(passage, claim["text"]) for passage, claim in CLAIMS if not claim["true"]]
    passed = [claim for passage, claim in false
              if supported(passage, claim, ranked(claim, passage)[:1])]  # fmt: skip
    print(len(passed), passed)
    assert len(passed) <= 16
