"""Similar words are not support: negation, number, restriction, subject or direction may differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Final, Literal

from docstokg.domain.answer.claims import (
    AUXILIARIES,
    Alignment,
    Claim,
    is_stated,
    share,
    words_of,
)
from docstokg.domain.text.wording import (
    ALIKE,
    NEGATIONS,
    OPPOSITES,
    Quantity,
    content_stems,
    read,
    stem,
)
from docstokg.domain.text.words import CLAIM_STOP_WORDS, normalise

Difference = Literal["contradicted", "subject_mismatch", "restriction_mismatch"]
Doubt = Literal["negation_mismatch", "contradiction_suspected"]

_CLOSE: Final = 0.5
"""The share by rarity of a claim from which a sentence speaks of the same thing."""
_HARDLY: Final = 0.1
_UNDIRECTED_TEXT: Final = "include includes included show shows remain contain form serve serves"
_UNDIRECTED: Final = frozenset(map(stem, _UNDIRECTED_TEXT.split()))
# A list says that something occurs without a verb.
_UNSAID: Final = frozenset(map(stem, ("occur", "happen", "appear")))
# Which side of a verb a thing stands on by its nature: a plan involves its means, a sign supports
# a diagnosis, a cause increases a risk, a test detects what it is for.
_MEANS_TEXT: Final = "involve require consist use depend need"
_PLANS_TEXT: Final = (
    "diagnosis treatment management workup evaluation assessment staging screening prevention care "
    "installation configuration setup deployment recovery planning stage"
)
_SIGNS_TEXT: Final = "support confirm suggest indicate establish imply"
_FINDINGS_TEXT: Final = "diagnosis need presence suspicion likelihood possibility existence"
_MEASURES_TEXT: Final = "increase raise reduce lower decrease"
_MEASURED_TEXT: Final = "risk chance likelihood odds probability rate incidence"
_TESTS_TEXT: Final = "assess evaluate identify detect determine measure check"
_TOOLS_TEXT: Final = "test testing exam examination scan system tool method analysis assay biopsy"


def _by_verb(verbs: str, things: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(map(stem, verbs.split()), frozenset(map(stem, things.split())))


_BEFORE_VERB: Final = _by_verb(_MEANS_TEXT, _PLANS_TEXT) | _by_verb(_TESTS_TEXT, _TOOLS_TEXT)
_BEHIND_VERB: Final = _by_verb(_SIGNS_TEXT, _FINDINGS_TEXT) | _by_verb(
    _MEASURES_TEXT, _MEASURED_TEXT
)
_MOST_OF_IT: Final = 0.7
_NO_SUBJECT: Final = 0.2
_LITTLE_OF_BOTH: Final = 1.1
"""Shares of a claim's subject and predicate, added up, below which a text speaks of another one."""
_CLAUSE: Final = re.compile(
    r"[,;:()]|\b(?:and|but|while|whereas|although|though|which|who|because|however)\b",
    re.IGNORECASE,
)
# Between the items of a list of figures: no sign within a figure or an id (HP:0001250) is one.
_ITEM: Final = re.compile(
    r"[;()]|[,:](?!\w)|\b(?:and|but|while|whereas|which|who)\b", re.IGNORECASE
)
_PART: Final = re.compile(r"(?<!\d)(\d{1,9}) (?:out )?of (?:the |all )?(\d{1,9})(?!\d)")
_ASIDE: Final = re.compile(r"\([^()]*\)")
_LEADING: Final = re.compile(
    r"((?:\([^()]*\)|[^\d,;:()])*?)\b(?:are|were|includes?|included)\b((?:\([^()]*\)|[^\d,;:()])*)",
    re.IGNORECASE,
)
# "Makes symbolic links instead of hard links".
_INSTEAD: Final = re.compile(r"\b(?:instead of|rather than)\b([^,;:.()]{1,120})", re.IGNORECASE)
_FEW_WORDS: Final = 12
_DENYING: Final = frozenset(map(stem, NEGATIONS))
_BEFORE: Final = 3
_BEHIND: Final = 3
_SHORT_ASIDE: Final = re.compile(r"\(((?:[^\s()]+ ?){1,3})\)")
_WORDY_ASIDE: Final = re.compile(r" ?\([^()\d]*\)")
_PARALLEL: Final = re.compile(r"[,;]\s|\band\b|\bbut\b|\bwhile\b|\bwhereas\b", re.IGNORECASE)
_LIKE_WORDS: Final = 16
_OPTION: Final = re.compile(r"(?<![\w-])-{1,2}[A-Za-z0-9][\w-]*")
# `load_dotenv`, a name as only programs write them.
_IDENTIFIER: Final = re.compile(r"(?<!\w)[A-Za-z]\w*?_\w+")
# "Their own" speaks of no shared one; "own" itself is among the words left out.
_SHARED: Final = frozenset(map(stem, ("share", "common")))
_PARTICLES: Final = {"on": "off", "off": "on", "up": "down", "down": "up"}
_ENTRY: Final = re.compile(r"^[^\S\n]*(-{1,2}[A-Za-z0-9].*)$", re.MULTILINE)
_COLUMN: Final = re.compile(r"\s{2,}")
# "If it isn't found there, a scan is needed": what is denied is a condition, not what is said.
_CONDITION: Final = re.compile(
    r"\A\W*(?:if|when|unless|although|though|because|since|until"
    r"|(?:for|in|among) (?:people|patients|persons|those|anyone|someone|women|men|children) who)\b"
    r"[^,;:.]{1,150}+,\s",
    re.IGNORECASE,
)
# "The most common symptom", "the second most common": only one thing is.
_FOREMOST: Final = re.compile(r"\bthe (?:\w+ ){0,2}?((?:most|least) \w+)", re.IGNORECASE)
# "Not every person" and "not only" deny nothing of what is said.
_NOT_ALL: Final = re.compile(r"\bnot (?=(?:every|everyone|all|only|just|necessarily)\b)", re.I)
_ACRONYM: Final = re.compile(r"\b[A-Z][A-Z0-9]+\b")
_EXCLUSIVE: Final = frozenset({"only", "solely", "exclusively", "merely"})
_SAYS_ONLY: Final = _EXCLUSIVE | {"restricted", "except", "unless"}
_UNIVERSAL: Final = frozenset(
    {"all", "every", "always", "everyone", "everything", "invariably", "entirely"}
)
_SAYS_ALL: Final = _UNIVERSAL | {"each", "any", "entire", "whole", "throughout"}
_NEVER: Final = frozenset({"never"})
_ADVERBS: Final = frozenset({"not", "always", "never", "also", "often", "usually", "only", "most"})
_PARTICIPLE: Final = re.compile(
    r".{2,}(?:ed|wn|en)|found|made|built|kept|held|sent|put|set|read|cut|done|lost|left|run|told|"
    r"brought|thought|caught|taught|led|fed"
)
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
    elif close and is_reversed(claim, source):
        sure.append("contradicted")
    elif _is_turned(alignment, source) or (close and _is_opposed(claim, alignment, source)):
        doubts.append("contradiction_suspected")
    predicates = [name for name in claim.predicate_rarities if not name[0].isdigit()]
    if (
        not sure
        and not doubts
        and (
            _hardly_said(alignment, predicates)
            or _is_joined(claim, source)
            or _is_not_foremost(alignment, sentences)
            or _is_replaced(claim, source)
        )
    ):
        doubts.append("contradiction_suspected")
    option = _names_option(claim.text, alignment.order[0], sentences)
    if option is False or _is_about_another(alignment) or _is_of_another(claim, source):
        sure.append("subject_mismatch")
    elif option is None and not sure and not doubts:
        doubts.append("contradiction_suspected")
    if is_restricted(claim, source):
        sure.append("restriction_mismatch")
    return tuple(sure), tuple(doubts)


def _is_about_another(alignment: Alignment) -> bool:
    """Tell whether what is said of a claim's subject is said where the subject is not.

    A text that speaks of it elsewhere may call it "this cancer" here, but not stage 4 or 12.
    """
    best, subject = alignment.order[0], alignment.claim.subject_rarities
    if alignment.subject[best] >= _NO_SUBJECT or alignment.predicate[best] < _CLOSE:
        return False
    beside = alignment.near[best] | alignment.heading
    if any(name[0].isdigit() and name not in beside for name in subject):
        return True
    held = alignment.heading.union(*(reading.stems for reading in alignment.readings))
    return share(subject, held) < _CLOSE


def _is_of_another(claim: Claim, source: str) -> bool:
    """Tell whether the best sentence names a function or variable, and none the subject is."""
    own = frozenset(_IDENTIFIER.findall(claim.sides[0]))
    there = frozenset(_IDENTIFIER.findall(source))
    return bool(own and there) and not own & there


def _is_not_foremost(alignment: Alignment, sentences: Sequence[str]) -> bool:
    """Tell whether a claim calls its subject "the most common" one and nothing near it does."""
    claim = alignment.claim
    foremost = _FOREMOST.search(claim.text)
    if foremost is None:
        return False
    phrase = normalise(foremost[1])
    return not any(
        share(claim.subject_rarities, near | alignment.heading) >= _CLOSE
        and phrase in normalise(" ".join(text.split()))
        for text, near in zip(sentences, alignment.near, strict=True)
    )


def _is_replaced(claim: Claim, source: str) -> bool:
    """Tell whether a claim says what its source says something else is done instead of."""
    replaced = _INSTEAD.search(source)
    if replaced is None or _INSTEAD.search(claim.text):
        return False
    left = source[: replaced.start()] + source[replaced.end() :]
    return bool(
        frozenset(claim.rest)
        & frozenset(content_stems(replaced[1])) - frozenset(content_stems(left))
    )


def _is_joined(claim: Claim, source: str) -> bool:
    """Tell whether a claim joins what two like clauses of one sentence say apart.

    "Makes hard links by default, symbolic links with -s" does not say "symbolic links by default":
    both clauses speak of links, and each has a word of the claim that the other lacks.
    """
    parts = [frozenset(content_stems(part)) for part in _PARALLEL.split(source)]
    if len(parts) == 1 or len(words_of(source)) > _LIKE_WORDS:
        return False
    for text in _PARALLEL.split(claim.text):
        stems = frozenset(content_stems(text)) - frozenset(claim.subject)
        first = max(parts, key=lambda part: len(part & stems))
        for other in parts:
            if first & other & stems and other & stems - first and first & stems - other:
                return True
    return False


def _hardly_said(alignment: Alignment, predicates: Sequence[str]) -> bool:
    """Tell whether a text lacks most of both the subject and what is said of it."""
    claim = alignment.claim
    held = alignment.heading.union(*(reading.stems for reading in alignment.readings))
    both = share(claim.subject_rarities, held) + share(claim.predicate_rarities, held)
    return bool(predicates) and both < _LITTLE_OF_BOTH


def _names_option(claim: str, best: int, sentences: Sequence[str]) -> bool | None:
    """Tell whether the place that says most of a claim names one of the options it names.

    False when it names others instead, or stands below the line of another option; None when it
    names none; True for a claim without any.
    """
    own = frozenset(_OPTION.findall(claim))
    if not own or own & frozenset(_OPTION.findall(sentences[best])):
        return True
    if entry := _entry(best, sentences):
        return bool(own & entry)
    around = " ".join(sentences[max(0, best - 1) : best + 2])
    there = frozenset(_OPTION.findall(sentences[best]) or _OPTION.findall(around))
    return bool(own & there) if there else None


def _entry(place: int, sentences: Sequence[str]) -> frozenset[str]:
    """Return the options of the line, at or above a sentence, that begins with an option."""
    for text in reversed(sentences[: place + 1]):
        if lines := _ENTRY.findall(text):
            return frozenset(_OPTION.findall(_COLUMN.split(lines[-1])[0]))
    return frozenset()


def _denial_differs(claim: Claim, source: str) -> bool:
    """Tell whether one of both denies, looking at the part that says most of the claim.

    A sentence may deny something else in another clause. A claim that denies is also held by a
    denial anywhere in the sentence when no clause says most of it.
    """
    source = _CONDITION.sub("", source)
    denied_there, denied_here = _denied(words_of(source)), _denied(claim.words)
    if _verb_of(claim) & denied_there - denied_here:
        return True
    if denied_here & denied_there:
        return False
    source = _NOT_ALL.sub("", source)
    clause = closest_clause(claim.rarities, source)
    part, whole = (share(claim.rarities, frozenset(content_stems(t))) for t in (clause, source))
    denied = denials(closest_words(claim.rarities, clause)) > 0
    if not denials(claim.words):
        return denied
    return not denied and (part >= _MOST_OF_IT * whole or denials(words_of(source)) == 0)


def _verb_of(claim: Claim) -> frozenset[str]:
    """Return the stem of the full verb: behind an auxiliary where there is one."""
    return _main_verb(claim) or frozenset(claim.verb)


def _denied(words: Sequence[str]) -> frozenset[str]:
    """Return the stems of what stands right behind the words that deny."""
    return frozenset(
        stem(word)
        for place, one in enumerate(words)
        if one in NEGATIONS or one.endswith("n't")
        for word in words[place + 1 : place + 1 + _BEHIND]
        if word not in CLAIM_STOP_WORDS | AUXILIARIES | _ADVERBS
    )


def closest_words(rarities: Mapping[str, float], text: str) -> tuple[str, ...]:
    """Return the shortest run of words with all that a text holds, and three words before it.

    Texts made of headings and list items have sentences of a hundred words: a denial far from
    what is looked for denies something else.
    """
    words = words_of(text)
    stems = [stem(word) for word in words]
    targets = {name for name in stems if name in rarities} - _DENYING
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


def closest_clause(rarities: Mapping[str, float], source: str) -> str:
    """Return the clause of a sentence that holds most of what is to be found."""
    return _closest(rarities, _parts(source, _CLAUSE))[0]


def _closest(rarities: Mapping[str, float], parts: Sequence[str]) -> list[str]:
    """List the parts that hold most of what is to be found, all of them that hold equally much."""
    shares = [share(rarities, frozenset(content_stems(part))) for part in parts]
    return [part for part, held in zip(parts, shares, strict=True) if held == max(shares)]


def _parts(text: str, border: re.Pattern[str]) -> list[str]:
    # A longer aside stands inside a clause and does not end it; one with figures is a statement.
    whole = _WORDY_ASIDE.sub("", _SHORT_ASIDE.sub(r"\1", text))
    return [part for part in border.split(whole) if part.strip()] or [text]


def is_restricted(claim: Claim, source: str) -> bool:
    """Tell whether a claim says "only", "all" or "never" where its source says nothing like it."""
    # ALL and ONLY may be names in capitals: in a sentence that is not all capitals they are none.
    own = set(words_of(_without_acronyms(claim.text)))
    other = set(words_of(_without_acronyms(source)))
    return (
        bool(own & _EXCLUSIVE and not other & _SAYS_ONLY)
        or bool(own & _UNIVERSAL and not other & _SAYS_ALL)
        or bool(own & _NEVER and denials(closest_words(claim.rarities, source)) == 0)
    )


def _without_acronyms(text: str) -> str:
    return _ACRONYM.sub(" ", text) if any(map(str.islower, text)) else text


def is_reversed(claim: Claim, source: str) -> bool:
    """Tell whether a sentence has object, verb and subject in this order, in the claim's voice.

    Words on both sides do not count.
    """
    words = words_of(source)
    first, second = _sides(claim, words)
    if not first or not second:
        return False
    verb = frozenset(claim.verb) | _main_verb(claim)
    verbs = [place for place, word in enumerate(words) if stem(word) in verb]
    return any(max(second) < place < min(first) for place in verbs)


def _sides(claim: Claim, words: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return where a sentence has the words of the claim's subject, and of what it says of it.

    A sentence of the other voice has them the other way round.
    """
    verb = frozenset(claim.verb) | _main_verb(claim)
    subject = set(claim.subject) - set(claim.rest) - verb
    target = set(claim.rest) - set(claim.subject) - verb
    stems = [stem(word) for word in words]
    first = [place for place, name in enumerate(stems) if name in subject]
    second = [place for place, name in enumerate(stems) if name in target]
    if _is_passive(claim.words, verb) != _is_passive(words, verb):
        first, second = second, first
    return first, second


def _is_turned(alignment: Alignment, source: str) -> bool:
    """Tell whether nothing says that a directed relation goes the way the claim has it.

    Only a directed verb turns into its opposite: "B is A" may well say what "A is B" says. The
    source has the verb, or one that says the same, and not only what is said before the subject.
    The same words without the verb ("tar -x ARCHIVE" for "tar -x creates an archive") say nothing
    of who does what.
    """
    claim = alignment.claim
    if not claim.verb or claim.verb[0] in _UNDIRECTED or AUXILIARIES & set(claim.words):
        return False
    if _goes_by_nature(claim):
        return False
    first, second = _sides(claim, words_of(source))
    pairs = [left < right for left in first for right in second]
    if pairs and sum(pairs) / len(pairs) <= _HARDLY:
        return True
    held = frozenset(alignment.readings[alignment.order[0]].stems)
    return not all(held & ALIKE.get(verb, {verb}) for verb in set(claim.verb) - _UNSAID)


def _goes_by_nature(claim: Claim) -> bool:
    """Tell whether things of this kind stand in a claim where they belong, and nowhere else."""
    verb, subject, rest = claim.verb[0], frozenset(claim.subject), frozenset(claim.rest)
    before, behind = _BEFORE_VERB.get(verb, frozenset()), _BEHIND_VERB.get(verb, frozenset())
    return bool(before & subject and not before & rest) or bool(
        behind & rest and not behind & subject
    )


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
    """Tell whether a participle of the verb stands behind a form of "be"."""
    return any(
        stem(word) in verb
        and _PARTICIPLE.fullmatch(word) is not None
        and _BE.intersection(words[max(0, place - 3) : place])
        for place, word in enumerate(words)
    )


def _is_opposed(claim: Claim, alignment: Alignment, source: str) -> bool:
    """Tell whether the best sentence has the opposite of a word where it lacks the word.

    "Turns on" is the opposite of "turns off" and of "turned off".
    """
    held = frozenset(alignment.readings[alignment.order[0]].stems)
    own, there = (_particles(words) for words in (claim.words, words_of(source)))
    if any(
        (verb, _PARTICLES[particle]) in there and (verb, particle) not in there
        for verb, particle in own
    ):
        return True
    if "own" in claim.words and _SHARED & held:
        return True
    return any(
        name in OPPOSITES and name not in held and OPPOSITES[name] & held
        for name in claim.wording.stems
    )


def _particles(words: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return the stems before "on", "off" and the like, each with that word."""
    pairs = pairwise(words)
    return frozenset((stem(word), after) for word, after in pairs if after in _PARTICLES)


def is_misplaced_number(alignment: Alignment, sentences: Sequence[str]) -> bool:
    """Tell whether a number of the claim belongs to something else in its source.

    So when the best sentence that says half of the claim, or its clause that does, states other
    numbers of the same unit, and not this one ("1233 show delay, 870 hypotonia" against "870 show
    delay"; "126 if it cannot be invoked" against "137 if it cannot be invoked").
    """
    claim = alignment.claim
    source = sentences[alignment.order[0]]
    if not any(number.exact for number in claim.wording.quantities):
        return False
    rarities = {name: value for name, value in claim.rarities.items() if not name[0].isdigit()}
    # A list of figures is compared item by item.
    items = [item for item in _parts(claim.text, _ITEM) if _exact(item)]
    # What the heading says is true of every clause below it, what leads a list of all its items.
    common = alignment.heading | _lead(source)
    for item in items if len(items) > 1 else [claim.text]:
        words = frozenset(content_stems(item))
        own = {name: value for name, value in rarities.items() if name in words}
        told_apart = {n: value for n, value in own.items() if n not in common} or own
        if _is_elsewhere(item, told_apart, own, source):
            return True
    return False


def _lead(source: str) -> frozenset[str]:
    """Give the words before the verb of "signs of X are cough in 3, fever in 2 patients".

    None unless several items have figures and the first has a name of its own behind the verb:
    what leads "seizures are in 3, coughs in 2" is the first item itself.
    """
    items = [item for item in _parts(source, _ITEM) if _exact(item)]
    if len(items) < 2 or (match := _LEADING.match(source)) is None:
        return frozenset()
    is_named = bool(content_stems(_ASIDE.sub("", match[2])))
    return frozenset(content_stems(match[1])) if is_named else frozenset()


def _exact(text: str) -> list[Quantity]:
    return [number for number in read(text).quantities if number.exact]


def _is_elsewhere(
    item: str,
    sought: Mapping[str, float],
    words: Mapping[str, float],
    source: str,
) -> bool:
    """Tell whether what is nearest to some words, an item or the sentence, has other numbers.

    Of items equally near the first one counts, or one that has a word that the others lack.
    """
    if not sought:
        return False
    near = _closest(sought, _parts(source, _ITEM))
    stems = [frozenset(content_stems(part)) & words.keys() for part in near]
    right = any(
        not _states_others(item, part)
        and (at == 0 or own - frozenset().union(*stems[:at], *stems[at + 1 :]))
        for at, (part, own) in enumerate(zip(near, stems, strict=True))
    )
    if not right and share(sought, frozenset(content_stems(near[0]))) >= _CLOSE:
        return True
    return share(sought, frozenset(content_stems(source))) >= _CLOSE and _states_others(
        item, source
    )


def _states_others(item: str, text: str) -> bool:
    """Tell whether a text states numbers of the same unit, and one of the item's not.

    "26 of 27 patients" states 27, and not 27 of 27.
    """
    stated = read(text).quantities
    if any(
        not is_stated(number, stated) and any(other.unit == number.unit for other in stated)
        for number in _exact(item)
    ):
        return True
    parts, others = (_PART.findall(one) for one in (item, text))
    wholes = {whole for _, whole in others}
    return any((part, whole) not in others and whole in wholes for part, whole in parts)
