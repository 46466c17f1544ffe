"""Similar words are not support: values, negation, restriction, subject or direction may differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Final, Literal

from docstokg.domain.answer.claims import (
    Alignment,
    Match,
    Place,
    covered,
    rarities,
    share,
    sides,
)
from docstokg.domain.answer.clauses import (
    Clause,
    is_denial,
    is_participle,
    months,
    values_of,
    words_of,
)
from docstokg.domain.text.quantities import Quantity, is_stated
from docstokg.domain.text.wording import opposites
from docstokg.domain.text.words import stem

Difference = Literal["contradicted", "subject_mismatch", "restriction_mismatch"]
Doubt = Literal["negation_mismatch", "contradiction_suspected"]

_CLOSE: Final = 0.5
"""The share by rarity of a clause from which a place speaks of the same thing."""
_MOST: Final = 0.6
_SOME: Final = 0.35
_HARDLY: Final = 0.1
_UNDIRECTED: Final = frozenset(
    ("includ", "show", "remain", "contain", "form", "serv", "be", "have")
)
_PART: Final = 0.4
_LEAST: Final = 2
_TIE: Final = 0.03
_SAME: Final = 0.7
_NEARLY: Final = 0.1
_FEW_WORDS: Final = 12
_BEFORE: Final = 3
_BE: Final = frozenset({"is", "are", "was", "were", "be", "been", "being"})
_BEHIND_ON: Final = frozenset({"by", "and", "or", "unless", "when", "if", "for", "since", "until"})
_ON: Final = frozenset({"enabled", "active", "activated"})
_OFF: Final = frozenset({"off", "disabled", "inactive", "deactivated"})
_ACRONYM: Final = re.compile(r"\b[A-Z][A-Z0-9]+\b")
_EXCLUSIVE: Final = frozenset({"only", "solely", "exclusively", "merely"})
_SAYS_ONLY: Final = _EXCLUSIVE | {"restricted", "except", "unless"}
_UNIVERSAL: Final = frozenset(
    {"all", "every", "always", "everyone", "everything", "invariably", "entirely"}
)
_SAYS_ALL: Final = _UNIVERSAL | {"each", "any", "entire", "whole", "throughout"}


def differences(alignment: Alignment) -> tuple[tuple[Difference, ...], tuple[Doubt, ...]]:
    """Return what the places nearest to a claim say otherwise, surely and perhaps."""
    sure: dict[Difference, None] = {}
    doubts: dict[Doubt, None] = {}
    for match in alignment.matches:
        source = alignment.sentences[match.place.sentence].text
        opposed = is_opposed(match.clause, match.place.clause)
        if _denial_differs(match) ^ opposed:
            if match.said >= (_MOST if opposed else _CLOSE):
                sure["contradicted"] = None
            elif match.said >= _SOME:
                doubts["contradiction_suspected" if opposed else "negation_mismatch"] = None
        elif match.said >= _CLOSE and is_reversed(match.clause, match.place.clause.words):
            sure["contradicted"] = None
        if is_exchanged(match.clause, alignment):
            sure["subject_mismatch"] = None
        if is_restricted(match, source):
            sure["restriction_mismatch"] = None
    return tuple(sure), tuple(doubts)


def _denial_differs(match: Match) -> bool:
    """Tell whether one side denies, where it says what the other says."""
    claim, source = match.clause, match.place.clause
    closest = closest_words(rarities(claim.own), source.text)
    return any(map(is_denial, closest)) ^ any(map(is_denial, claim.words))


def is_opposed(claim: Clause, source: Clause) -> bool:
    """Tell whether a clause has the opposite of a word where it lacks the word; on and off too."""
    here, there = _state(claim.words), _state(source.words)
    if here and there:
        return here != there
    if there < 0 and "default" in claim.words and "default" in source.words:
        return not any(map(is_denial, claim.words))
    return any(
        name not in source.stems and opposites().get(name, frozenset()) & source.own - claim.own
        for name in claim.own
    )


def _state(words: Sequence[str]) -> int:
    """Return 1 for words that say "on" or "enabled", -1 for "off" or "disabled", else 0."""
    if _OFF.intersection(words):
        return -1
    ends = any(
        word == "on" and (at + 1 == len(words) or words[at + 1] in _BEHIND_ON)
        for at, word in enumerate(words)
    )
    return int(ends or bool(_ON.intersection(words)))


def closest_words(wanted: Mapping[str, float], text: str) -> tuple[str, ...]:
    """Return the shortest run of words with all that a text holds, and three words before it.

    Texts made of headings and list items have clauses of a hundred words: a denial far from what
    is looked for denies something else.
    """
    words = words_of(text)
    stems = [stem(word) for word in words]
    targets = {
        name
        for word, name in zip(words, stems, strict=True)
        if name in wanted and not is_denial(word)
    }
    if len(words) <= _FEW_WORDS or not targets:
        return words
    held: Counter[str] = Counter()
    best = (len(words), 0, len(words))
    begin = 0
    for end, name in enumerate(stems, start=1):
        held[name] += name in targets
        while len(+held) == len(targets):
            best = min(best, (end - begin, begin, end))
            held[stems[begin]] -= stems[begin] in targets
            begin += 1
    _, begin, end = best
    return words[max(0, begin - _BEFORE) : end]


def is_restricted(match: Match, source: str) -> bool:
    """Tell whether a claim says "only", "all" or "never" where its place says nothing like it."""
    # ALL and ONLY may be names in capitals: in a sentence that is not all capitals they are none.
    clause = match.place.clause
    own = set(words_of(_without_acronyms(match.clause.text)))
    other = set(words_of(_without_acronyms(clause.text if clause.own_subject else source)))
    return (
        bool(own & _EXCLUSIVE and not other & _SAYS_ONLY)
        or bool(own & _UNIVERSAL and not other & _SAYS_ALL)
        or ("never" in own and not any(map(is_denial, other)))
    )


def _without_acronyms(text: str) -> str:
    return _ACRONYM.sub(" ", text) if any(map(str.islower, text)) else text


def is_reversed(claim: Clause, words: Sequence[str]) -> bool:
    """Tell whether words have object and subject in this order around a claim's verb, in its voice.

    Words on both sides do not count, nor do verbs that say the same both ways.
    """
    verb = claim.verb - _UNDIRECTED
    subject, target = claim.subject - claim.rest - verb, claim.rest - claim.subject - verb
    stems = [stem(word) for word in words]
    first = [at for at, name in enumerate(stems) if name in subject]
    second = [at for at, name in enumerate(stems) if name in target]
    passive = _is_passive(claim.words, verb)
    if not verb & frozenset(stems) or (passive and "by" not in claim.words):
        return False
    if passive != _is_passive(words, verb):
        first, second = second, first
    pairs = [before < behind for before in first for behind in second]
    return bool(pairs) and sum(pairs) <= _HARDLY * len(pairs)


def _is_passive(words: Sequence[str], verb: Set[str]) -> bool:
    """Tell whether a participle of the verb stands behind a form of "be"."""
    return any(
        stem(word) in verb and is_participle(word) and _BE.intersection(words[max(0, at - 3) : at])
        for at, word in enumerate(words)
    )


def is_exchanged(claim: Clause, alignment: Alignment) -> bool:
    """Tell whether what is said of a claim's subject is said of another one, beside it.

    So where every place that says it names a subject of its own with a word the claim lacks, and
    lacks most of the claim's subject, of which a place in the same or the next sentence speaks.
    """
    subject, predicate = sides(claim)
    predicate = {name: value for name, value in predicate.items() if not name.startswith("#")}
    if not subject or len(predicate) < _LEAST:
        return False
    shares = [share(predicate, place.clause.stems) for place in alignment.places]
    most = max(shares)
    if most < _SAME:
        return False
    nearest = [
        place
        for place, says in zip(alignment.places, shares, strict=True)
        if says >= most - _NEARLY
    ]
    return all(_is_of_another(claim, subject, place, alignment.places) for place in nearest)


def _is_of_another(
    claim: Clause, subject: Mapping[str, float], place: Place, places: Sequence[Place]
) -> bool:
    own = place.clause
    if not own.own_subject or not own.subject - claim.own:
        return False
    missing = subject.keys() - own.stems - place.heading
    if sum(subject[name] for name in missing) < _PART * sum(subject.values()):
        return False
    return any(
        other.clause is not own
        and abs(other.sentence - place.sentence) <= 1
        and missing & (other.clause.subject | other.clause.taken)
        # Something else is said of it: "pears yield 58 litres" leaves out the juice alone.
        and (
            any(not name.startswith("#") for name in other.clause.own - claim.own - own.own)
            or _state(other.clause.words) * _state(claim.words) < 0
        )
        for other in places
    )


def is_misplaced_number(alignment: Alignment) -> bool:
    """Tell whether a value of the claim belongs to something else in its sources.

    Of all places that state a value of its kind and unit the nearest counts, by subject twice and
    by what is said once: "126 if it cannot be invoked" is not "137 if it cannot be invoked".
    """
    return any(
        _is_elsewhere(number, clause, alignment.places)
        for clause in alignment.clauses
        for number in clause.quantities
    )


def _is_elsewhere(number: Quantity, clause: Clause, places: Sequence[Place]) -> bool:
    own = values_of(number) | (months() if number.date is not None else frozenset())
    subject, rest = sides(clause)
    subject = {name: value for name, value in subject.items() if name not in own}
    rest = {name: value for name, value in rest.items() if name not in own}
    best = right = said = 0.0
    # "Fourteen of 96": what states the other number of the claim does not state this one wrongly.
    beside = [other for other in clause.quantities if other is not number]
    # Cells and rows may leave the unit to the column's name.
    stated = [other for place in places for other in place.clause.quantities]
    strict = is_stated(number, filter(number.is_alike, stated))
    for place in places:
        alike = [
            other
            for other in place.clause.quantities
            if (number.is_alike(other) or (not strict and number.may_be_alike(other)))
            and not any(one.is_stated_by(other) for one in beside)
        ]
        if not alike:
            continue
        score = 2 * covered(subject, place) + covered(rest, place)
        if score > best:
            best, said = score, share({**subject, **rest}, place.clause.stems | place.heading)
        if is_stated(number, alike):
            right = max(right, score)
    return right < best - _TIE and said >= _CLOSE
