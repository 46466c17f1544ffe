"""A claim laid beside a text: which sentence speaks of it, and how much of it is said there."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from docstokg.domain.text.wording import Quantity, Wording, content_stems, read, stem
from docstokg.domain.text.words import CLAIM_STOP_WORDS, normalise

_AUXILIARIES_TEXT: Final = (
    "is are was were be been being has have had can could may might will would should must does "
    "do did cannot"
)
AUXILIARIES: Final = frozenset(_AUXILIARIES_TEXT.split())
_VERBS_TEXT: Final = (
    "include includes included cause causes caused help helps helped require requires required "
    "use uses occur occurs occurred involve involves reduce reduces reduced increase increases "
    "increased affect affects lead leads led provide provides show shows showed contain contains "
    "form forms formed produce produces produced treat treats prevent prevents support supports "
    "bind binds regulate regulates promote promotes inhibit inhibits induce induces play plays "
    "played predict predicts consist consists remain remains depend depends allow allows become "
    "becomes became begin begins began start starts win won make makes made receive received "
    "serve serves served release released work worked appear appears appeared mean means keep "
    "keeps delete deletes remove removes create creates extract extracts expire expires install "
    "installs stop stops set sets print prints return returns take takes took give gives gave get "
    "gets need needs run runs ran spread spreads grow grows develop develops come comes go goes "
    "went change changes happen happens improve improves say says call calls write writes read "
    "reads"
)
# Verbs that are hardly ever nouns, in all their forms.
_REGULAR_TEXT: Final = (
    "accept add append apply ask assess avoid belong combine compare compress confirm connect "
    "contribute convert copy decompress define describe destroy detect determine disable discard "
    "display edit emit enable enhance ensure erase evaluate execute exit expand explain fail find "
    "follow generate grant guarantee hide identify ignore impair indicate insert invoke join kill "
    "lose manage merge move obtain omit open originate overwrite parse preserve protect refuse "
    "reject relieve rename replace resolve restore resume retain reveal rewrite save select send "
    "skip specify split store suppress suggest terminate transform truncate turn uninstall upload "
    "download verify wait warn weaken worsen"
)


def _forms(verb: str) -> tuple[str, ...]:
    """Inflect a regular verb; a form that is not English matches nothing and does no harm."""
    if verb.endswith("y") and verb[-2] not in "aeou":
        return verb, f"{verb[:-1]}ies", f"{verb[:-1]}ied"
    plural = f"{verb}es" if verb.endswith(("s", "x", "sh", "ch")) else f"{verb}s"
    doubled = f"{verb}{verb[-1]}ed" if verb[-2] in "aeiou" else verb
    return verb, plural, f"{verb}d" if verb.endswith("e") else f"{verb}ed", doubled


VERBS: Final = frozenset(
    [*_VERBS_TEXT.split(), *(form for verb in _REGULAR_TEXT.split() for form in _forms(verb))]
)
"""Frequent full verbs: with the auxiliaries they tell where a claim's subject ends. A verb that is
missing costs little: the claim is then cut at a past participle or in its middle."""

# "Organs affected by it include the lung": what follows says that the participle is not the verb.
_AFTER_PARTICIPLE: Final = frozenset(
    {"by", "in", "with", "for", "from", "on", "at", "during", "as"}
)
_NOUNS_TOO_TEXT: Final = (
    "use uses cause causes help helps change changes need needs form forms start starts play plays "
    "work works run runs set sets print prints return returns stop stops support supports increase "
    "increases spread call calls show shows treat treats wins win"
)
_FINITE: Final = frozenset(
    verb for verb in VERBS - frozenset(_NOUNS_TOO_TEXT.split()) if not verb.endswith("ed")
)

_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019][a-z]+)?", re.IGNORECASE)
_BESIDE: Final = 0.85
_LONG_WORD: Final = 5


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence to be checked, cut at its verb into subject, verb and the rest.

    `words` are folded and in order; the stems are of content words only. `sides`: the text before
    the verb and the text from the verb on. `rarities` gives each content stem of the claim its
    inverse document frequency.
    """

    text: str
    sides: tuple[str, str]
    wording: Wording
    words: tuple[str, ...]
    subject: tuple[str, ...]
    verb: tuple[str, ...]
    rest: tuple[str, ...]
    rarities: Mapping[str, float]

    @property
    def subject_rarities(self) -> Mapping[str, float]:
        """Give the rarities of the subject's stems."""
        return {name: self.rarities.get(name, 0.0) for name in self.subject}

    @property
    def predicate_rarities(self) -> Mapping[str, float]:
        """Give the rarities of the stems of verb and rest."""
        return {name: self.rarities.get(name, 0.0) for name in (*self.verb, *self.rest)}


@dataclass(frozen=True, slots=True)
class Alignment:
    """A claim beside the sentences of one text.

    `order`: places of sentences, the one that says most of the claim first. `subject[i]` and
    `predicate[i]`: shares by rarity, in [0, 1], of the claim's subject found in sentence i, or
    times 0.85 in it, its neighbours or the heading, and of its predicate found in sentence i.
    `near[i]`: stems of sentence i and its neighbours.
    """

    claim: Claim
    readings: tuple[Wording, ...]
    order: tuple[int, ...]
    subject: tuple[float, ...]
    predicate: tuple[float, ...]
    near: tuple[frozenset[str], ...]
    heading: frozenset[str]

    def window(self) -> tuple[Wording, ...]:
        """Give the readings of the best sentence and its neighbours."""
        best = self.order[0]
        return self.readings[max(0, best - 1) : best + 2]


def words_of(text: str) -> tuple[str, ...]:
    """Return the folded words of a sentence in order, contractions in one piece."""
    return tuple(normalise(match[0]).replace("\u2019", "'") for match in _WORD.finditer(text))


def read_claim(text: str, rarity: Callable[[str], float]) -> Claim:
    """Cut a claim at its first auxiliary, else at its first known verb, participle or middle."""
    words = words_of(text)
    at, width = _verb_at(words)
    starts = [match.start() for match in _WORD.finditer(text)]
    cut = starts[at] if at < len(starts) else len(text)
    sides = text[:cut].strip(), text[cut:].strip()
    wording = read(text)
    subject, verb, rest = (
        _stems(part) for part in (words[:at], words[at : at + width], words[at + width :])
    )
    names = dict.fromkeys((*wording.stems, *subject, *verb, *rest))
    rarities = {name: rarity(name) for name in names}
    return Claim(text, sides, wording, words, subject, verb, rest, rarities)


def subject_of(text: str) -> frozenset[str]:
    """Return the content stems before the verb of a sentence or clause."""
    words = words_of(text)
    return frozenset(_stems(words[: _verb_at(words)[0]]))


def _verb_at(words: Sequence[str]) -> tuple[int, int]:
    for place, word in enumerate(words[1:], start=1):
        if word in AUXILIARIES:
            return place, 1
    for place, word in enumerate(words[1:], start=1):
        if word in VERBS or (len(word) > _LONG_WORD and word.endswith("ed")):
            if _only_qualifies(words, place):
                continue
            return place, 1
    return max(1, len(words) // 2), 0


def _only_qualifies(words: Sequence[str], place: int) -> bool:
    """Tell whether a participle qualifies the word before it, since another verb follows."""
    behind = words[place + 1 : place + 2]
    return (
        words[place].endswith("ed")
        and bool(_AFTER_PARTICIPLE.intersection(behind))
        and bool(_FINITE.intersection(words[place + 2 :]))
    )


def _stems(words: Sequence[str]) -> tuple[str, ...]:
    plain = (word for word in words if word not in CLAIM_STOP_WORDS and not word.endswith("n't"))
    return tuple(dict.fromkeys(stem(word) for word in plain))


def share(rarities: Mapping[str, float], stems: Set[str]) -> float:
    """Return the share by rarity of `rarities` that `stems` hold; 1 when there is nothing."""
    total = sum(rarities.values())
    return sum(v for name, v in rarities.items() if name in stems) / total if total else 1.0


def align(
    claim: Claim, sentences: Sequence[str], heading: str = "", sources: Sequence[int] | None = None
) -> Alignment:
    """Lay a claim beside the sentences of one or several texts, at least one.

    `sources`: per sentence the number of its text; neighbours are of the same text. The best
    sentence has the highest min(subject, predicate) + half the share of the claim; ties go to the
    earlier one.
    """
    readings = tuple(read(sentence) for sentence in sentences)
    stems = [frozenset(reading.stems) for reading in readings]
    head = frozenset(content_stems(heading))
    texts = sources or [0] * len(stems)
    near = tuple(
        frozenset().union(
            *(
                stems[other]
                for other in range(max(0, place - 1), min(len(stems), place + 2))
                if texts[other] == texts[place]
            )
        )
        for place in range(len(stems))
    )
    subjects, predicates = claim.subject_rarities, claim.predicate_rarities
    subject = tuple(
        max(share(subjects, own), _BESIDE * share(subjects, around | head))
        for own, around in zip(stems, near, strict=True)
    )
    predicate = tuple(share(predicates, own) for own in stems)
    scores = [
        min(subject[place], predicate[place]) + share(claim.rarities, own) / 2
        for place, own in enumerate(stems)
    ]
    order = tuple(sorted(range(len(stems)), key=lambda place: (-scores[place], place)))
    return Alignment(claim, readings, order, subject, predicate, near, head)


def features(alignment: Alignment) -> dict[str, float]:
    """Return the named features of a text as support for a claim, by words alone."""
    claim, best = alignment.claim, alignment.order[0]
    readings = alignment.readings
    stems = [frozenset(reading.stems) for reading in readings]
    held = frozenset().union(*stems) | alignment.heading
    beside = alignment.near[best] | alignment.heading
    pairs = bigrams(claim.wording)
    shared = [pairs & bigrams(reading) for reading in readings]
    one, two = _covered_by(claim.rarities, stems)
    absent = [value for name, value in claim.rarities.items() if name not in beside]
    window = alignment.window()
    said_near = [
        min(
            share(claim.subject_rarities, around | alignment.heading),
            share(claim.predicate_rarities, around | alignment.heading),
        )
        for around in alignment.near
    ]
    return {
        "together_near": max(said_near),
        "together_all": min(
            share(claim.subject_rarities, held), share(claim.predicate_rarities, held)
        ),
        "together": min(alignment.subject[best], alignment.predicate[best]),
        "subject": alignment.subject[best],
        "predicate": alignment.predicate[best],
        "by_one": one,
        "by_two": two,
        "by_all": share(claim.rarities, held),
        "pairs_one": max(map(len, shared)) / (len(pairs) or 1),
        "pairs_all": len(frozenset().union(*shared)) / (len(pairs) or 1),
        "pairs_best": len(shared[best]) / (len(pairs) or 1),
        "rarest_missing": max(absent, default=0.0) / 10,
        "missing": len(absent) / (len(claim.rarities) or 1),
        "rarest_absent": max(
            (value for name, value in claim.rarities.items() if name not in held), default=0.0
        )
        / 10,
        "verb": float(all(name in beside for name in claim.verb)) if claim.verb else 0.5,
        "names_missing": names_missing(claim.wording, window),
        "names_absent": names_missing(claim.wording, readings),
        "numbers_missing": numbers_missing(claim.wording, window),
        "numbers_absent": numbers_missing(claim.wording, readings),
        "length": math.log(1 + len(claim.wording.stems)),
        "sentences": math.log(len(readings)),
    }


def bigrams(wording: Wording) -> frozenset[tuple[str, str]]:
    """Return the pairs of neighbouring content stems."""
    return frozenset(zip(wording.stems, wording.stems[1:], strict=False))


def _covered_by(
    rarities: Mapping[str, float], stems: Sequence[frozenset[str]]
) -> tuple[float, float]:
    """Return the share of a claim that the best one and the best two sentences hold (greedy)."""
    first = max(stems, key=lambda own: share(rarities, own))
    second = max(stems, key=lambda own: share(rarities, first | own))
    return share(rarities, first), share(rarities, first | second)


def names_missing(claim: Wording, readings: Sequence[Wording]) -> float:
    """Return the share of the claim's names that no reading holds; 0 without any."""
    held = frozenset().union(*(reading.names for reading in readings))
    return 1 - len(claim.names & held) / len(claim.names) if claim.names else 0.0


def numbers_missing(claim: Wording, readings: Sequence[Wording]) -> float:
    """Return the share of the claim's numbers that no reading states; 0 without any."""
    if not claim.quantities:
        return 0.0
    numbers = [number for reading in readings for number in reading.quantities]
    absent = sum(not is_stated(number, numbers) for number in claim.quantities)
    return absent / len(claim.quantities)


def is_stated(number: Quantity, numbers: Sequence[Quantity]) -> bool:
    """Tell whether `number` is stated, or is a stated number rounded to its own digits."""
    return any(
        (not number.unit or not other.unit or number.unit == other.unit)
        and (
            math.isclose(number.value, other.value, rel_tol=1e-9, abs_tol=1e-12)
            or (other.digits > number.digits and round(other.value, number.digits) == number.value)
        )
        for other in numbers
    )
