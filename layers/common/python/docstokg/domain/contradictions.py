"""Similar words are not support: negation, number, restriction, subject or direction may differ."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Final, Literal

from docstokg.domain.claims import (
    AUXILIARIES,
    Alignment,
    Claim,
    is_stated,
    share,
    words_of,
)
from docstokg.domain.wording import NEGATIONS, OPPOSITES, content_stems, read, stem
from docstokg.domain.words import CLAIM_STOP_WORDS

Difference = Literal["contradicted", "subject_mismatch", "restriction_mismatch"]
Doubt = Literal["negation_mismatch", "contradiction_suspected"]

_CLOSE: Final = 0.5
"""The share by rarity of a claim from which a sentence speaks of the same thing."""
_NEARLY_ALL: Final = 0.75
_MOST_OF_IT: Final = 0.7
_NO_SUBJECT: Final = 0.2
_CLAUSE: Final = re.compile(
    r"[,;:()]|\b(?:and|but|while|whereas|although|though|which|who|because|however)\b",
    re.IGNORECASE,
)
_EXCLUSIVE: Final = frozenset({"only", "solely", "exclusively", "merely"})
_UNIVERSAL: Final = frozenset(
    {"all", "every", "always", "everyone", "everything", "invariably", "entirely"}
)
_SAYS_ALL: Final = _UNIVERSAL | {"each", "any", "entire", "whole", "throughout"}
_NEVER: Final = frozenset({"never"})
_ADVERBS: Final = frozenset({"not", "always", "never", "also", "often", "usually", "only", "most"})
_BE: Final = frozenset({"is", "are", "was", "were", "be", "been", "being"})


def denials(words: Sequence[str]) -> int:
    """Count the words that deny."""
    return sum(word in NEGATIONS or word.endswith("n't") for word in words)


def differences(
    alignment: Alignment, sentences: Sequence[str]
) -> tuple[tuple[Difference, ...], tuple[Doubt, ...]]:
    """Return what the best sentence says otherwise than the claim, surely and perhaps."""
    claim, best = alignment.claim, alignment.order[0]
    source = sentences[best]
    coverage = share(claim.rarities, frozenset(alignment.readings[best].stems))
    close = coverage >= _CLOSE
    sure: list[Difference] = []
    doubts: list[Doubt] = []
    if _denial_differs(claim, source):
        if close:
            sure.append("contradicted")
        else:
            doubts.append("negation_mismatch")
    elif close and is_reversed(claim, source, around_verb=True):
        sure.append("contradicted")
    elif coverage >= _NEARLY_ALL and is_reversed(claim, source, around_verb=False):
        # Only a directed verb turns into its opposite: "B is A" may well say what "A is B" says.
        doubts.append("contradiction_suspected")
    elif close and _is_opposed(claim, alignment):
        doubts.append("contradiction_suspected")
    if alignment.subject[best] < _NO_SUBJECT and alignment.predicate[best] >= _CLOSE:
        sure.append("subject_mismatch")
    if is_restricted(claim, source):
        sure.append("restriction_mismatch")
    return tuple(sure), tuple(doubts)


def _denial_differs(claim: Claim, source: str) -> bool:
    """Tell whether one of both denies, looking at the clause that says most of the claim.

    A sentence may deny something else in another clause. A claim that denies is also held by a
    denial anywhere in the sentence when no clause says most of it.
    """
    clause = closest_clause(claim.rarities, source)
    denied = denials(words_of(clause)) > 0
    if not denials(claim.words):
        return denied
    part, whole = (share(claim.rarities, frozenset(content_stems(t))) for t in (clause, source))
    return not denied and (part >= _MOST_OF_IT * whole or denials(words_of(source)) == 0)


def closest_clause(rarities: Mapping[str, float], source: str) -> str:
    """Return the clause of a sentence that holds most of what is to be found."""
    clauses = [clause for clause in _CLAUSE.split(source) if clause.strip()] or [source]
    return max(clauses, key=lambda clause: share(rarities, frozenset(content_stems(clause))))


def is_restricted(claim: Claim, source: str) -> bool:
    """Tell whether a claim says "only", "all" or "never" where its source says nothing like it."""
    own, other = set(claim.words), set(words_of(source))
    return (
        bool(own & _EXCLUSIVE and not other & _EXCLUSIVE)
        or bool(own & _UNIVERSAL and not other & _SAYS_ALL)
        or bool(own & _NEVER and denials(words_of(source)) == 0)
    )


def is_reversed(claim: Claim, source: str, *, around_verb: bool) -> bool:
    """Tell whether a sentence has the claim's subject after its object, in the same voice.

    `around_verb`: with the claim's full verb between them. Words on both sides do not count.
    """
    words = words_of(source)
    stems = [stem(word) for word in words]
    verb = frozenset(claim.verb) | _main_verb(claim)
    subject = set(claim.subject) - set(claim.rest) - verb
    target = set(claim.rest) - set(claim.subject) - verb
    first = [place for place, name in enumerate(stems) if name in subject]
    second = [place for place, name in enumerate(stems) if name in target]
    if not first or not second:
        return False
    if _is_passive(claim.words, verb) != _is_passive(words, verb):
        first, second = second, first
    if around_verb:
        verbs = [place for place, name in enumerate(stems) if name in verb]
        return any(max(second) < place < min(first) for place in verbs)
    pairs = [left < right for left in first for right in second]
    return sum(pairs) <= len(pairs) // 10


def _main_verb(claim: Claim) -> frozenset[str]:
    """Return the stem of the participle after an auxiliary ("is caused by": cause)."""
    for place, word in enumerate(claim.words[:-1]):
        if place and word in AUXILIARIES:
            following = [
                other
                for other in claim.words[place + 1 : place + 4]
                if other not in AUXILIARIES | CLAIM_STOP_WORDS | _ADVERBS
            ]
            return frozenset({stem(following[0])}) if following else frozenset()
    return frozenset()


def _is_passive(words: Sequence[str], verb: Set[str]) -> bool:
    """Tell whether the verb stands between a form of "be" and "by"."""
    return any(
        stem(word) in verb
        and _BE.intersection(words[max(0, place - 3) : place])
        and "by" in words[place + 1 : place + 4]
        for place, word in enumerate(words)
    )


def _is_opposed(claim: Claim, alignment: Alignment) -> bool:
    """Tell whether the best sentence has the opposite of a word where it lacks the word."""
    held = frozenset(alignment.readings[alignment.order[0]].stems)
    return any(
        name in OPPOSITES and name not in held and OPPOSITES[name] & held
        for name in claim.wording.stems
    )


def is_misplaced_number(alignment: Alignment, sentences: Sequence[str]) -> bool:
    """Tell whether a number of the claim belongs to something else in its source.

    So when the clause of the best sentence that says most of the claim states other numbers of
    the same unit, and not this one ("1233 show delay, 870 hypotonia" against "870 show delay").
    """
    claim = alignment.claim
    exact = [number for number in claim.wording.quantities if number.exact]
    if not exact:
        return False
    said = {name: value for name, value in claim.rarities.items() if not name[0].isdigit()}
    clause = closest_clause(said, sentences[alignment.order[0]])
    if share(said, frozenset(content_stems(clause))) < _CLOSE:
        return False
    stated = read(clause).quantities
    return any(
        not is_stated(number, stated) and any(other.unit == number.unit for other in stated)
        for number in exact
    )
