"""What tells a claim whose subject was exchanged: the words that its two sides do not share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

from docstokg.domain.answer.claims import Alignment, share, subject_of, words_of
from docstokg.domain.answer.contradictions import closest_clause
from docstokg.domain.text.wording import content_stems

_OPTION: Final = re.compile(r"(?<![\w-])-{1,2}[A-Za-z0-9]")
_ENDING: Final = re.compile(r"\.\w{1,5}\Z")


def features(alignment: Alignment, sentences: Sequence[str]) -> dict[str, float]:
    """Return the named features, each in [0, 1], of texts that were looked for and not cited.

    "Mouth cancer staging is recommended for stage 3 colon cancer" has "cancer" and "stage" on both
    sides, and any text about colon cancer holds them: only "mouth" is the subject's own.
    `own_near`: the share by rarity of the subject's own words in the best sentence, its neighbours
    and the heading. `own_together`: the largest product of that share and the share of the
    predicate's own words in the sentence itself, of all sentences. `own_else`: how much the clause
    that says most of the predicate speaks of the subject (the share of its own words before the
    clause's verb) and says something else of it (times the share of the predicate that it lacks).
    """
    claim, best = alignment.claim, alignment.order[0]
    first, second = set(claim.subject), {*claim.verb, *claim.rest}
    subject, predicate = (
        _own(side, other, claim.rarities) for side, other in ((first, second), (second, first))
    )
    near = [around | alignment.heading for around in alignment.near]
    clause = closest_clause(predicate, sentences[best])
    stems = frozenset(content_stems(clause))
    return {
        "own_near": share(subject, near[best]),
        "own_together": max(
            share(subject, around) * share(predicate, frozenset(reading.stems))
            for around, reading in zip(near, alignment.readings, strict=True)
        ),
        "own_else": share(subject, subject_of(clause)) * (1 - share(predicate, stems)),
    }


def of_title(claim: str, names: Sequence[str], texts: Sequence[str]) -> list[bool]:
    """Tell of each passage found whether it speaks of the document that a claim begins with.

    `names`, `texts`: of each passage the name of its document and its text. "Git clean pushes
    tags" is about git-clean where a passage of that was found: what git-push says then counts only
    where it has these words too, and not at all of an option ("tar -c"). All passages do where the
    claim begins with the name of no document.
    """
    words = words_of(claim)
    words = words[1:] if words[:1] in (("the",), ("a",), ("an",)) else words
    titles = [words_of(_ENDING.sub("", name)) for name in names]
    leading = max((one for one in titles if one and words[: len(one)] == one), key=len, default=())
    optional = _OPTION.search(claim) is not None
    return [
        title == leading or not leading or (not optional and _says(text, leading))
        for title, text in zip(titles, texts, strict=True)
    ]


def _says(text: str, title: Sequence[str]) -> bool:
    return f" {' '.join(title)} " in f" {' '.join(words_of(text))} "


def _own(side: Set[str], other: Set[str], rarities: Mapping[str, float]) -> dict[str, float]:
    """Give a side's words that the other one lacks with their rarities, else all its words."""
    return {name: rarities.get(name, 0.0) for name in side - other or side}
