"""Features of a quotable unit."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import NamedTuple

from docstokg.contracts.state import Block
from docstokg.domain.answer.kinds import Label, asked_kinds, has_number, named_label, opening_label
from docstokg.domain.answer.parts import Part, units
from docstokg.domain.text.names import capitalised_names
from docstokg.domain.text.values import Value, identifiers, is_stated, values
from docstokg.domain.text.wording import content_stems
from docstokg.domain.text.words import is_english, normalise

# `HP:0001250` and `D:1` are one word each, so that another "1" does not match a part of them.
SAME = 0.6
_ID_COLON = re.compile(r"(?<=[^\W\d_]):(?=\d)")
# A capital A that is not an article: after a word ("Model A"), or without a following noun.
_NAMED_A = re.compile(r"(?<=\w )A\b(?! ?[A-Z'’.]\w)|\bA\b(?! ?\w|['’.]\w)")
_DEFINED = re.compile(
    r"(?:what (?:is|are|does)|define|was (?:ist|sind|bedeutet)|qu'est-ce que|qu[eé] (?:es|son)"
    r"|che cos'? ?è|o que (?:é|são)|wat (?:is|zijn|betekent))\s+"
    r"(?:an?\b|the\b|eine?\b|une?\b|l[ae]\b|un[ao]?\b|um\b|een\b)?\s*"
    r"(?P<name>[^?,]{2,120}?)(?:\s+mean)?\s*[?.]?",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:before|after|prior to|since|until|till|by|from|between|and|to|than|over|under|above"
    r"|below|least|most|within|around|about|last|next|past|every|each|per)\s+(?:the\s+)?\Z",
    re.IGNORECASE,
)
_LAST_PLACE = 8
_SHORT_WORDS, _LONG_WORDS = 10, 25


class Features(NamedTuple):
    """Features of a unit, named as in `reader_weights.json`.

    `cosine`: of question and nearest sentence. `words`: share of the question's words, weighted by
    rarity; a value in another notation counts; `words_around`: with title, heading and previous
    sentence. `place`: of its passage, 0 to 1. `long`: words above ten, in tens. `kind_missed`: 1 if
    the unit lacks a number that the question asks for. `name_missed`: 1 for a row, where
    no name of the question is in it or around it. `defines`: 1 if it opens the page or section of
    the term that the question asks to define, 2 to 4 as returned by `label_fit`. `other_value`: 1
    if another unit has a value of the question, and this one only others.
    """

    cosine: float
    words: float
    words_around: float
    place: float
    long: float
    kind_missed: float
    name_missed: float
    defines: float
    other_value: float


class Candidate(NamedTuple):
    """A quotable unit of a block, with its features.

    `words`: its stems. `covered`: the question's stems in the unit or its title, with their rarity.
    """

    unit: Part
    block: Block
    features: Features
    words: frozenset[str]
    covered: Mapping[str, float]

    @property
    def is_labelled(self) -> bool:
        """Whether the question names it by its label."""
        return self.features.defines > 1


def stems(text: str) -> tuple[str, ...]:
    """Return `content_stems(text)`, with a capital A that is not an article and ids as words."""
    return content_stems(_ID_COLON.sub("", _NAMED_A.sub("a0", text)))


def alike(first: Set[str], second: Set[str]) -> bool:
    """Return whether the Dice coefficient of two sets of stems is at least 0.6."""
    size = len(first) + len(second)
    return 2 * len(first & second) >= SAME * size > 0


def rarities(texts: Sequence[Collection[str]]) -> dict[str, float]:
    """Return log(1 + n / (1 + df)) for each stem in n texts."""
    counts = Counter(stem for text in texts for stem in text)
    return {stem: math.log(1 + len(texts) / (1 + count)) for stem, count in counts.items()}


class AskedValue(NamedTuple):
    """A value of the question, in all readings, as written, and the stems of that."""

    readings: tuple[Value, ...]
    written: str
    words: frozenset[str]

    def share(self, evidence: Sequence[Value]) -> float:
        """Return the share of the kinds of its readings that agree with a stated value."""
        kinds = {value.kind for value in self.readings}
        agreed = {value.kind for value in self.readings if is_stated(value, evidence)}
        return 1.0 if agreed & {"amount", "date"} else len(agreed) / len(kinds)

    def is_part_of_period(self, readings: Iterable[Value]) -> bool:
        """Return whether it is a shorter time in one of the readings, a month, quarter or year."""
        return any(asked.is_part_of_period(value) for asked in self.readings for value in readings)


@lru_cache(maxsize=256)
def asked_values(query: str) -> tuple[AskedValue, ...]:
    """Return the values in a question, each with its readings.

    English has one reading: "1,234" exceeds a thousand, "1.234" does not.
    """
    is_plain = is_english(query)
    return tuple(
        AskedValue(
            tuple(_english(readings, written) if is_plain else readings),
            written,
            frozenset(stems(written)),
        )
        for span, readings in _by_span(_with_ids(query)).items()
        for written in (query[slice(*span)],)
    )


def _with_ids(text: str) -> tuple[Value, ...]:
    return (*values(text), *identifiers(text))


def _by_span(stated: Iterable[Value]) -> dict[tuple[int, int], list[Value]]:
    groups: dict[tuple[int, int], list[Value]] = {}
    for value in stated:
        groups.setdefault((value.start, value.end), []).append(value)
    return groups


def in_asked_notation(query: str, text: str) -> str:
    """Return a text with its values written as those of the question that they agree with.

    A range that holds the value of the question becomes that value, a month or year does not.
    """
    question = asked_values(query)
    groups = _by_span(_with_ids(text)) if question else {}
    agreeing = {
        span: asked.written
        for asked in question
        for span, readings in groups.items()
        if asked.share(readings) == 1 and not asked.is_part_of_period(readings)
    }
    begin = len(text)
    for start, end in sorted(agreeing, key=lambda span: (-span[1], -span[0])):
        if end <= begin:
            text = text[:start] + agreeing[start, end] + text[end:]
            begin = start
    return text


def _english(readings: Sequence[Value], text: str) -> list[Value]:
    """Return the readings with a comma for thousands and a point for decimals."""
    if ("," in text) == ("." in text):
        return list(readings)
    extreme = max if "," in text else min
    kinds = dict.fromkeys((value.kind, value.unit) for value in readings)
    return [
        extreme((each for each in readings if (each.kind, each.unit) == kind), key=lambda v: v.low)
        for kind in kinds
    ]


def states_others(query: str, text: str) -> bool:
    """Return whether a text has, for a value of an English question, only others of its kind.

    Plain numbers and open ranges ("before 2000") are not compared, and the year of a report says
    nothing of a quarter if the text has quarters or days.
    """
    readings = _with_ids(text)
    for asked in asked_values(query) if readings and is_english(query) else ():
        stated = [value for value in readings if not asked.is_part_of_period((value,))]
        checked = [v for v in asked.readings if v.unit or v.kind not in ("number", "day")]
        kinds = {(value.kind, value.unit) for value in checked}
        others = any((value.kind, value.unit) in kinds for value in stated)
        is_stated_here = any(is_stated(value, stated) for value in checked)
        if others and not is_stated_here and not _OPEN.search(query[: asked.readings[0].start]):
            return True
    return False


def defined_name(query: str) -> tuple[str, ...]:
    """Return the stems of the term that a question asks to define; () for other questions."""
    match = _DEFINED.fullmatch(query.strip())
    return stems(match["name"]) if match is not None else ()


def candidates(query: str, blocks: Sequence[Block]) -> list[Candidate]:
    """Return all units of the blocks with their features, in block order.

    An alias of a name in the question counts as that name.
    """
    names = sorted(
        {
            (name, tuple(stems(other.in_question)))
            for block in blocks
            for other in block.other_names
            if (name := " ".join(stems(other.in_passage)))
        }
    )

    def called(words: Sequence[str]) -> frozenset[str]:
        text = f" {' '.join(words)} "
        alternatives = (word for name, alias in names if f" {name} " in text for word in alias)
        return frozenset((*words, *alternatives))

    rows = [
        (place, block, unit, words, called(words))
        for place, block in enumerate(blocks)
        for unit in units(block.text, block.sentences)
        if block.text[unit.start : unit.end] != section_of(block)
        for words in (stems(unit.text),)
    ]
    question = dict.fromkeys(stems(query))
    weights = rarities([aliased for *_, aliased in rows])
    rarity = {word: weights.get(word, math.log(1 + len(rows))) for word in question}
    total = sum(rarity.values()) or 1.0
    numbers, term, label = asked_values(query), defined_name(query), named_label(query)
    # Times are not required, since many have no digits ("at dawn").
    asks_number = "number" in asked_kinds(query)
    # German writes all nouns with capitals.
    proper = capitalised_names(query) if is_english(query) else ()
    names_asked = {word for name in proper for word in stems(name)}

    def share(words: Collection[str], text: str) -> float:
        covered = {word: weight for word, weight in rarity.items() if word in words}
        for number in numbers:
            if not number.words <= covered.keys() and (part := number.share(_with_ids(text))):
                covered.update((word, part * rarity.get(word, 0.0)) for word in number.words)
        return sum(covered.values()) / total

    is_asked_stated = any(
        number.share(_with_ids(unit.text)) == 1 for number in numbers for _, _, unit, *_ in rows
    )
    result = []
    for place, block, unit, words, plain in rows:
        defines = label_fit(label, unit, block) if label else _defines(term, unit, block)
        # A label is a value in another notation: "4." is "step 4".
        aliased = plain.union(stems(" ".join(label))) if label and defines else plain
        around = f"{block.subject} {block.document_name} {unit.above} {unit.before}"
        wider = called(stems(around))
        features = Features(
            cosine=_cosine(unit, block),
            words=share(aliased, unit.text),
            words_around=share(aliased | wider, f"{around} {unit.text}"),
            place=min(place, _LAST_PLACE) / _LAST_PLACE,
            long=max(0, min(_LONG_WORDS, len(words)) - _SHORT_WORDS) / 10,
            kind_missed=float(asks_number and not has_number(unit.text, question)),
            name_missed=float(
                unit.kind == "row" and bool(names_asked) and names_asked.isdisjoint(aliased | wider)
            ),
            defines=defines,
            other_value=float(is_asked_stated and states_others(query, in_place(unit.text, block))),
        )
        titled = aliased | called(stems(block.subject))
        covered = {word: weight for word, weight in rarity.items() if word in titled}
        result.append(Candidate(unit, block, features, frozenset(words), covered))
    return result


def label_fit(label: Label, unit: Part, block: Block) -> float:
    """Return 4 if a unit, its heading or its section opens with the label and its noun.

    Return 3 if it opens with the number alone, 2 for a list with such an item, else 0.
    """
    labels = labels_of(unit, block)
    if unit.kind == "list":
        return 2.0 * (("", label[1]) in labels)
    return 4.0 if label in labels else 3.0 * (("", label[1]) in labels)


def labels_of(unit: Part, block: Block) -> list[Label | None]:
    """Return the labels of the items of a list, or of a unit, its heading and its section."""
    text = block.text[unit.start : unit.end]
    if unit.kind == "list":
        return [opening_label(line) for line in text.splitlines()]
    return [opening_label(line) for line in (text, unit.heading, section_of(block))]


def in_place(text: str, block: Block) -> str:
    """Return a text of a block with title and heading, which may have a value that it lacks."""
    return f"{text} {block.subject} {section_of(block)}"


def section_of(block: Block) -> str:
    """Return the heading of a block's innermost section; "" without one."""
    return block.section.rpartition(" > ")[2]


def _defines(term: tuple[str, ...], unit: Part, block: Block) -> float:
    if not term:
        return 0.0
    if unit.kind in ("code", "list"):
        first = next(u for u in units(block.text, block.sentences) if u.heading == unit.heading)
        is_led = bool(unit.lead) and unit.before.split() == unit.lead.split()
        return float(is_led and unit == first and stems(unit.heading) == term)
    is_first = not block.text[: unit.start].rpartition("\n\n")[0].strip("# \n")
    titled = stems(unit.above) == term or (is_first and stems(block.subject) == term)
    return float(titled and unit.before == unit.question)


def _cosine(unit: Part, block: Block) -> float:
    cosines = [
        cosine
        for (start, end), cosine in zip(block.sentences, block.cosines, strict=False)
        if start < unit.end and unit.start < end
    ]
    return max(cosines, default=block.relevance / 20)


def folded(text: str) -> str:
    """Return `normalise(text)`, with a capital A that is not an article and ids as words."""
    return normalise(_ID_COLON.sub("", _NAMED_A.sub("a0", text)))
