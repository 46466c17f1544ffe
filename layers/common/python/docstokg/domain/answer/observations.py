"""Facts about claims."""

import re
from collections.abc import Sequence
from typing import Literal

from docstokg.domain.answer.consistency import label_beside, mentions
from docstokg.domain.text.folding import variant
from docstokg.domain.text.values import unstated
from docstokg.domain.text.wording import ids, names
from docstokg.domain.text.words import FOREIGN, WORD, english_share, normalise

Observation = Literal[
    "number_not_in_source", "name_not_in_source", "id_not_in_source", "id_label_mismatch"
]
_JOINT = re.compile(r"[-/+]")
_PARTS = re.compile(r"[^\W\d_]{3,}")


def observations(claim: str, sources: Sequence[str]) -> tuple[Observation, ...]:
    """Return codes for the numbers, names, ids and labels of a claim that no source has.

    In the order of the type, each once. `sources`: the cited passages with titles; () without any.
    Names are compared in English only.
    """
    if not sources:
        return ()
    text = "\n".join(sources)
    found: list[Observation] = []
    if unstated(claim, text):
        found.append("number_not_in_source")
    own_ids = ids(claim)
    if _is_english(claim) and any(
        not _contains(name, claim, normalise(text))
        for name in names(claim)
        if name.upper() not in own_ids
    ):
        found.append("name_not_in_source")
    if own_ids - ids(text):
        found.append("id_not_in_source")
    if any(not _is_labelled(mention, label, sources) for mention, label in _labels(claim)):
        found.append("id_label_mismatch")
    return tuple(found)


def _is_english(text: str) -> bool:
    words = [word.casefold() for word in WORD.findall(text)]
    return english_share(words) * len(words) >= sum(word in FOREIGN for word in words)


def _contains(name: str, claim: str, folded: str) -> bool:
    common = frozenset(filter(str.islower, _PARTS.findall(claim)))
    return name in folded or all(
        part in folded or part in common for part in _JOINT.split(name) if part
    )


def _labels(text: str) -> list[tuple[str, str]]:
    return [
        (mention.id, text[place[0] : place[1]])
        for mention in mentions(text)
        if (place := label_beside(text, mention)) is not None
    ]


def _is_labelled(identifier: str, label: str, sources: Sequence[str]) -> bool:
    words = variant(label).split()
    ends = [f" {' '.join(words[at:])} " for at in range(len(words))]
    own = [text for text in sources if identifier.casefold() in text.casefold()]
    given = [
        variant(one)
        for text in own
        for one in [given for other, given in _labels(text) if other == identifier] or [text]
    ]
    return not own or any(end in f" {one} " for end in ends for one in given)
