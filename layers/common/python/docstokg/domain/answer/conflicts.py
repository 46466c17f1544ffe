"""Passages laid beside each other: which say otherwise of the same thing, which replace another."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, permutations, product
from pathlib import PurePath
from typing import Final

from docstokg.contracts.records import StoredChunk
from docstokg.contracts.response import Conflict, ConflictKind, Span
from docstokg.contracts.state import Block, Disputed
from docstokg.domain.answer.claims import rarities, share
from docstokg.domain.answer.clauses import (
    Clause,
    is_denial,
    months,
    read_clauses,
    stems_of,
    words_of,
)
from docstokg.domain.answer.contradictions import closest_words
from docstokg.domain.answer.units import LONGEST
from docstokg.domain.text.quantities import Quantity, is_stated, quantities
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.wording import content_stems, opposites
from docstokg.domain.text.words import normalise

Cited = Sequence[tuple[int, StoredChunk]]
"""Passages with their ranks."""

Side = tuple[int, int, int]
"""Which of the cited passages, and the start and end of a stretch of it."""

MOST_COMPARED: Final = 10
"""Pairs of sentences that are read clause by clause: some milliseconds."""

MOST_TOLD: Final = 6
_ALIKE: Final = 0.6
"""The share by rarity of the shorter sentence that the other one holds, to be compared at all."""

_SHARED: Final = 0.5
_LEAST: Final = 2
_DATED: Final = ("date", "updated", "modified", "lastmod", "published", "effective", "year")
_BOUNDS: Final = frozenset({"least", "most", "than", "over", "under", "about", "around", "nearly"})


@dataclass(frozen=True)
class _Sentence:
    """A sentence and the one before it; `stems`: rarities, without numbers; `total`: their sum."""

    side: Side
    text: str
    before: str
    stems: Mapping[str, float]
    total: float

    @cached_property
    def is_turned(self) -> bool:
        """Tell whether it denies, or has a word that has an opposite."""
        return any(map(is_denial, words_of(self.text))) or not opposites().keys().isdisjoint(
            self.stems
        )

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        before = read_clauses(self.before)[-1] if self.before else None
        return read_clauses(self.text, before)

    def likeness(self, other: "_Sentence") -> float:
        both = self.stems.keys() & other.stems.keys()
        if len(both) < _LEAST:
            return 0.0
        return sum(map(self.stems.__getitem__, both)) / min(self.total, other.total)

    def may_differ(self, other: "_Sentence") -> bool:
        """Tell whether one denies, or both state values, and other ones."""
        if self.is_turned or other.is_turned:
            return True
        here, there = quantities(self.text), quantities(other.text)
        return bool(here and there) and set(here) != set(there)


def conflicts(cited: Cited, question: str) -> tuple[Conflict, ...]:
    """List which of the cited passages, given by rank, disagree: once for each two of them.

    The newer one comes first where `supersedes`, or the dates of both, tell which it is, else the
    better ranked. What only dates tell is `superseded` if the passages share a title and disagree,
    and the question does not ask for the older one's year.
    """
    heads = [_plain(stems_of(chunk.title)) for _, chunk in cited]
    sentences = [list(_sentences(place, chunk)) for place, (_, chunk) in enumerate(cited)]
    numbers = [
        {one.value for one in quantities(chunk.title) if one.date is None} for _, chunk in cited
    ]
    held = [
        head.union(*(one.stems for one in own)) for head, own in zip(heads, sentences, strict=True)
    ]
    near = [
        (likeness, one, other)
        for i, j in combinations(range(len(cited)), 2)
        # Each is about something else: of another title, or the 26th and the 38th of a kind.
        if not (heads[i] - held[j] and heads[j] - held[i]) and numbers[i] == numbers[j]
        for one, other in product(sentences[i], sentences[j])
        if (likeness := one.likeness(other)) >= _ALIKE and one.may_differ(other)
    ]
    found: dict[tuple[int, int], Conflict] = {}
    for _, one, other in sorted(near, key=lambda pair: -pair[0])[:MOST_COMPARED]:
        key = (one.side[0], other.side[0])
        own, others = heads[key[0]], heads[key[1]]
        kinds = (_differ(a, b, own, others) for a, b in product(one.clauses, other.clauses))
        if key not in found and (kind := next((k for k in kinds if k), None)):
            found[key] = _dated(kind, cited, (one.side, other.side), question)
    for newer, older in permutations(range(len(cited)), 2):
        if _replaces(cited[newer][1], cited[older][1]):
            sides = [(place, 0, len(cited[place][1].text)) for place in (newer, older)]
            found[min(newer, older), max(newer, older)] = _conflict("superseded", cited, sides)
    return tuple(found[key] for key in sorted(found))[:MOST_TOLD]


def warning(found: Sequence[Conflict]) -> str:
    """Say in one sentence which passages disagree, and which replace others."""
    told = [
        f"[{first}] replaces [{second}]" if kind == "superseded" else f"[{first}] and [{second}]"
        for (first, second), kind in ((one.ranks, one.kind) for one in found)
    ]
    return f"Passages disagree: {', '.join(told)}."


def marked(
    blocks: Sequence[Block], chunks: Mapping[str, StoredChunk], found: Sequence[Conflict]
) -> list[Block]:
    """Write into the blocks what another one says instead, and which are superseded."""
    made = {block.rank: block for block in blocks}
    for one in found:
        said = [_text(chunks[span.uuid], span) for span in one.spans]
        for own, other in ((0, 1), (1, 0)):
            block = made[one.ranks[own]]
            side = Disputed(said=said[own], by=one.ranks[other], instead=said[other])
            if one.kind == "superseded":
                block = block.model_copy(update={"superseded": block.superseded or own == 1})
            elif max(map(len, said)) <= LONGEST:
                block = block.model_copy(update={"disputed": (*block.disputed, side)})
            made[block.rank] = block
    return list(made.values())


def _text(chunk: StoredChunk, span: Span) -> str:
    base = chunk.char_start or 0
    return chunk.text[span.char_start - base : span.char_end - base]


def _sentences(place: int, chunk: StoredChunk) -> Iterator[_Sentence]:
    before = ""
    for start, end in chunk.sentences or sentence_spans(chunk.text):
        text = chunk.text[start:end]
        stems = {name for name in content_stems(text) if not name[0].isdigit()}
        if len(stems) >= _LEAST and not text.rstrip().endswith("?"):
            rare = rarities(stems)
            yield _Sentence((place, start, end), text, before, rare, sum(rare.values()))
        before = text


def _differ(
    one: Clause, other: Clause, one_head: Set[str], other_head: Set[str]
) -> ConflictKind | None:
    """Say in what two clauses differ, of which one says what the other does."""
    mine, theirs = _plain(one.own), _plain(other.own)
    extra = mine - _plain(other.stems | other_head)
    missing = theirs - _plain(one.stems | one_head)
    opposed = {
        (name, partner)
        for name in extra & (one.verb | one.rest)
        for partner in opposites().get(name, frozenset()) & missing & (other.verb | other.rest)
    }
    extra -= {name for name, _ in opposed}
    missing -= {name for _, name in opposed}
    shares = [share(rarities(own), own - left) for own, left in ((mine, extra), (theirs, missing))]
    same = mine & _plain(other.stems | other_head)
    if (extra and missing) or min(shares) < _SHARED or len(same) + len(opposed) < _LEAST:
        return None
    if extra & one.verb or missing & other.verb or _in_other_places(one, other):
        return None
    lost, gained = (
        [number for number in a.quantities if not is_stated(number, b.quantities)]
        for a, b in ((one, other), (other, one))
    )
    if _denies(one, same) ^ _denies(other, same) ^ bool(opposed):
        return None if lost and gained else "negation"
    if len(lost) == len(gained) == 1 and _are_values(lost[0], gained[0], one, other):
        return "value"
    return None


def _plain(stems: Set[str]) -> set[str]:
    return {name.removesuffix("'s") for name in stems if name[0] != "#"} - months()


def _in_other_places(one: Clause, other: Clause) -> bool:
    """Tell whether a preposition of both leads to other things: "in the yard", "in the house"."""
    groups = (
        (_plain(frozenset(mine)), _plain(frozenset(other.groups.get(name, ()))))
        for name, mine in one.groups.items()
        if name
    )
    return any(mine and theirs and not mine & theirs for mine, theirs in groups)


def _denies(clause: Clause, same: Set[str]) -> bool:
    return any(map(is_denial, closest_words(rarities(same), clause.text)))


def _are_values(one: Quantity, other: Quantity, first: Clause, second: Clause) -> bool:
    """Tell whether two numbers that differ are values of one thing, stated without a bound."""
    if not one.is_alike(other) or _is_rounded(one, other) or _is_rounded(other, one):
        return False
    for number, clause in ((one, first), (other, second)):
        is_name = not number.unit and f"#{number.value:g}" in clause.subject
        if is_name or any(a in _BOUNDS and quantities(b) for a, b in pairwise(clause.words)):
            return False
    return True


def _is_rounded(one: Quantity, other: Quantity) -> bool:
    """Tell whether `one` ends in two zeros or more and is what `other` becomes when rounded so."""
    digits = f"{one.value:.0f}"
    zeros = len(digits) - len(digits.rstrip("0"))
    return one.date is None and zeros >= 2 and round(other.value, -zeros) == one.value


def _dated(kind: ConflictKind, cited: Cited, sides: Sequence[Side], question: str) -> Conflict:
    """Put the newer side first; of one title it replaces the older."""
    chunks = [cited[place][1] for place, _, _ in sides]
    newer, older = (_date(chunk) for chunk in chunks)
    if newer and older and newer != older:
        if newer < older:
            sides, older = sides[::-1], newer
        first, second = (_plain(stems_of(chunk.title)) for chunk in chunks)
        if first == second and str(older[0]) not in question:
            kind = "superseded"
    return _conflict(kind, cited, sides)


def _conflict(kind: ConflictKind, cited: Cited, sides: Sequence[Side]) -> Conflict:
    ranks, spans = [], []
    for place, start, end in sides:
        rank, chunk = cited[place]
        base = chunk.char_start or 0
        ranks.append(rank)
        spans.append(Span(uuid=chunk.uuid, char_start=base + start, char_end=base + end))
    return Conflict(ranks=(ranks[0], ranks[1]), spans=(spans[0], spans[1]), kind=kind)


def _replaces(newer: StoredChunk, older: StoredChunk) -> bool:
    """Tell whether a document's `supersedes` names another: its id, name or title."""
    named = newer.metadata.get("supersedes")
    if not named or newer.doc_id == older.doc_id:
        return False
    names = {normalise(str(name)) for name in (named if isinstance(named, list) else [named])}
    paths = [PurePath(name) for name in (older.doc_id, older.document_name or "")]
    known = {older.title, *(str(part) for path in paths for part in (path, path.name, path.stem))}
    return bool(names & {normalise(name) for name in known if name})


def _date(chunk: StoredChunk) -> tuple[int, ...]:
    """Give year, month and day of a passage's document by its metadata, else its title, or ()."""
    told = [str(chunk.metadata[key]) for key in _DATED if key in chunk.metadata]
    dates = [one.date for text in (*told, chunk.title) for one in quantities(text) if one.date]
    return next((tuple(part or 0 for part in date) for date in dates if date[0]), ())
