"""Features of a quotable unit."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from docstokg.contracts.state import Block
from docstokg.domain.answer.parts import Part, units
from docstokg.domain.text.wording import content_stems
from docstokg.domain.text.words import WORD, normalise, stem

# `HP:0001250` and `D:1` are one word each, so that another "1" does not match a part of them.
SAME = 0.6
_ID_COLON = re.compile(r"(?<=[^\W\d_]):(?=\d)")
# A capital A that is not an article: after a word ("Model A"), or without a following noun.
_NAMED_A = re.compile(r"(?<=\w )A\b(?! ?[A-Z'’.]\w)|\bA\b(?! ?\w|['’.]\w)")
_IN_WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|twelve|hundred|thousand|million|half|once|none"
)
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
# Pairs of patterns: a kind of question, and words of that kind in an answer.
_KINDS = (
    (
        r"\bhow (?:many|much|long|old|far|large|big|tall|high|heavy|often|fast|wide|deep|hot)\b"
        r"|\b(?:what|which) (?:percent\w*|number|amount|size|share|port|age)\b",
        rf"\d|(?i:\b(?:{_IN_WORDS})\b)",
    ),
    (
        r"\bwhen\b|\b(?:what|which) (?:year|date|day|month|century|time)\b",
        rf"\b\d{{3,4}}\b|(?i:\b(?:{_MONTHS}|morning|evening|night|day|week|month|year|century|hour"
        r"|minute)s?\b|\b(?:after|before|until|when|while)\b)",
    ),
    (r"\bwho(?:m|se)?\b", r"(?<=[^.!?] )[A-Z][a-z]+|\b(?:he|she|man|woman|people|king)\b"),
    (r"\bwhere\b", r"(?i:\b(?:in|at|on|near|under|into|to|from|below|above|behind)\b)"),
    (
        r"\bwhy\b|\bwhat (?:caused|causes|made)\b",
        r"(?i:\b(?:because|since|so that|due to|as|for|in order|therefore|reason|caused?)\b)|:",
    ),
    (
        r"\bhow (?:do|does|did|can|could|should|to|is|are|was|were)\b"
        r"|\bwhich (?:command|option|function|setting)\b",
        r"`|--?\w|\(\)|(?i:\b(?:by|with|using|use|set|run|call|type|press|through)\b)",
    ),
)
_ASKED_AND_HELD = tuple((re.compile(a, re.I), re.compile(b)) for a, b in _KINDS)
_LAST_PLACE = 8
_SHORT_WORDS, _LONG_WORDS = 10, 25


class Features(NamedTuple):
    """Features of a unit, named as in `reader_weights.json`.

    `cosine`: of question and nearest sentence. `words`: share of the question's words, weighted by
    rarity; `words_around`: with title, heading and previous sentence. `place`: of its passage, 0 to
    1. `long`: words above ten, in tens. `kind_missed`: 1 if the unit lacks the expected kind of
    answer, such as a number.
    """

    cosine: float
    words: float
    words_around: float
    place: float
    long: float
    kind_missed: float


class Candidate(NamedTuple):
    """A quotable unit of a block, with its features.

    `words`: its stems. `asked`: the question's stems in the unit or its title, with their rarity.
    """

    unit: Part
    block: Block
    features: Features
    words: frozenset[str]
    asked: Mapping[str, float]


def folded(text: str) -> str:
    """Return `normalise(text)`, with a capital A that is not an article and ids as words."""
    return normalise(_ID_COLON.sub("", _NAMED_A.sub("a0", text)))


def stems(text: str) -> tuple[str, ...]:
    """Return `content_stems(text)`, with a capital A that is not an article and ids as words."""
    return content_stems(_ID_COLON.sub("", _NAMED_A.sub("a0", text)))


def alike(one: Candidate, other: Candidate) -> bool:
    """Return whether the Dice coefficient of two candidates' stems is at least 0.6."""
    return 2 * len(one.words & other.words) >= SAME * (len(one.words) + len(other.words)) > 0


def rarities(texts: Sequence[Collection[str]]) -> dict[str, float]:
    """Return log(1 + n / (1 + df)) for each stem in n texts."""
    held = Counter(stem for text in texts for stem in text)
    return {stem: math.log(1 + len(texts) / (1 + count)) for stem, count in held.items()}


def candidates(query: str, blocks: Sequence[Block]) -> list[Candidate]:
    """Return all units of the blocks with their features, in block order.

    An alias of a name in the question counts as that name.
    """
    names = {
        (name, tuple(stems(other.in_question)))
        for block in blocks
        for other in block.other_names
        if (name := " ".join(stems(other.in_passage)))
    }

    def called(words: Sequence[str]) -> set[str]:
        said = f" {' '.join(words)} "
        return {*words, *(word for name, asked in names if f" {name} " in said for word in asked)}

    rows = [
        (place, block, unit, words, called(words))
        for place, block in enumerate(blocks)
        for unit in units(block.text, block.sentences)
        for words in (stems(unit.shown),)
    ]
    asked = dict.fromkeys(stems(query))
    weights = rarities([own for *_, own in rows])
    rarity = {word: weights.get(word, math.log(1 + len(rows))) for word in asked}
    total = sum(rarity.values()) or 1.0
    kinds = [pattern for question, pattern in _ASKED_AND_HELD if question.search(query)]

    def share(words: Collection[str]) -> float:
        return sum(weight for word, weight in rarity.items() if word in words) / total

    made = []
    for place, block, unit, words, own in rows:
        around = f"{block.subject} {block.document_name} {unit.above} {unit.before}"
        said = _without(unit.shown, rarity) if kinds else ""
        features = Features(
            cosine=_cosine(unit, block),
            words=share(own),
            words_around=share(own | called(stems(around))),
            place=min(place, _LAST_PLACE) / _LAST_PLACE,
            long=max(0, min(_LONG_WORDS, len(words)) - _SHORT_WORDS) / 10,
            kind_missed=float(bool(kinds) and not any(kind.search(said) for kind in kinds)),
        )
        titled = own | called(stems(block.subject))
        asked_here = {word: weight for word, weight in rarity.items() if word in titled}
        made.append(Candidate(unit, block, features, frozenset(words), asked_here))
    return made


def _cosine(unit: Part, block: Block) -> float:
    own = [
        cosine
        for (start, end), cosine in zip(block.sentences, block.cosines, strict=False)
        if start < unit.end and unit.start < end
    ]
    return max(own, default=block.relevance / 20)


def _without(text: str, asked: Mapping[str, float]) -> str:
    return WORD.sub(lambda match: "" if stem(normalise(match[0])) in asked else match[0], text)
