"""Entity linking."""

import re
from bisect import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from docstokg.domain.identity import is_own_id
from docstokg.domain.text.folding import LEGAL_FORM, is_function_word, singular, words
from docstokg.domain.text.words import STOP_WORDS, fold

# A folded key, the id of its entity, and whether it is the entity's preferred name.
Entry = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class Match:
    """An occurrence of a name: `text[start:end]`, in code points.

    `entity_ids`: entities with this key (several: homonyms), preferred names first, then by id.
    `preferred`: the key is the preferred name of the first entity. `nested`: the match overlaps a
    longer one.
    """

    start: int
    end: int
    key: str
    entity_ids: tuple[str, ...]
    preferred: bool
    nested: bool = False


class Abbreviation(NamedTuple):
    """A definition `long form (SF)` at `text[start:end]`, without the closing bracket."""

    long: str
    short: str
    start: int
    end: int


class _Node:
    __slots__ = ("entries", "next")

    def __init__(self) -> None:
        self.entries: list[Entry] | None = None
        self.next: dict[str, _Node] | None = None


class Linker:
    """A trie over singular words; immutable."""

    def __init__(self, aliases: Iterable[Entry]) -> None:
        self._root: dict[str, _Node] = {}
        self._size = 0
        self._firms: set[str] = set()
        for entry in aliases:
            self._add(entry)

    def __len__(self) -> int:
        return self._size

    def _add(self, entry: Entry) -> None:
        if entry[2] and is_own_id(entry[1]) and LEGAL_FORM.search(entry[0]):
            self._firms.add(entry[1])
        level, node = self._root, None
        for word in entry[0].split():
            node = level.get(form := singular(word))
            if node is None:
                node = level[form] = _Node()
            if node.next is None:
                node.next = {}
            level = node.next
        if node is None:
            return
        if not node.next:
            node.next = None
        if node.entries is None:
            node.entries = []
        node.entries.append(entry)
        self._size += 1

    def find(self, text: str, *, lower_case: bool = False) -> list[Match]:
        """Return every name in `text`, by start, longer before shorter.

        Of overlapping names the longest, then leftmost wins; others are `nested`. Names of at most
        three letters, and other names of entities with a legal form ("Jazz, Ltd"), need a capital
        or digit, unless `lower_case`.
        """
        seen = words(text)
        forms, spans, root = seen.forms, seen.spans, self._root
        matches: list[Match] = []
        count = len(forms)
        for first in range(count):
            node = root.get(forms[first])
            last = first
            while node:
                if node.entries is not None:
                    start, end = spans[first][0], spans[last][1]
                    surface = text[start:end]
                    firms = self._firms if surface.islower() and not lower_case else ()
                    entries = [entry for entry in node.entries if entry[2] or entry[1] not in firms]
                    if (
                        entries
                        and _is_name(surface, forms[first], first == last, lower_case)
                        and (seen.exact or words(surface).forms == forms[first : last + 1])
                    ):
                        matches.append(_match(start, end, surface, entries))
                last += 1
                if node.next is None or last >= count:
                    break
                node = node.next.get(forms[last])
        return _longest_first(matches)


def _is_name(surface: str, form: str, alone: bool, lower_case: bool) -> bool:
    # `form` is singular: "odds" is not the plural of "ODD".
    if not alone:
        parts = surface.split()
        return any(part.casefold() not in STOP_WORDS for part in parts) or all(
            part[:1].isupper() for part in parts
        )
    if len(surface) < 2 or is_function_word(surface):
        return False
    if surface.isdecimal():
        return len(surface) > 2
    return lower_case or len(form) > 3 or not surface.islower() or not surface.isascii()


def _match(start: int, end: int, surface: str, entries: list[Entry]) -> Match:
    key = fold(surface)
    same = [entry for entry in entries if entry[0] == key] or entries
    same = sorted(same, key=lambda entry: (not entry[2], entry[1]))
    ids = tuple(dict.fromkeys(entry[1] for entry in same))
    return Match(start, end, same[0][0], ids, same[0][2])


def _longest_first(matches: list[Match]) -> list[Match]:
    if len(matches) < 2:
        return matches
    taken: list[tuple[int, int]] = []
    places: set[int] = set()
    for i in sorted(range(len(matches)), key=lambda i: (matches[i].start - matches[i].end, i)):
        match = matches[i]
        # Taken ranges do not overlap, so only the neighbours can conflict.
        at = bisect(taken, (match.start, match.start))
        if (at == 0 or taken[at - 1][1] <= match.start) and (
            at == len(taken) or match.end <= taken[at][0]
        ):
            taken.insert(at, (match.start, match.end))
            places.add(i)
    marked = [
        match if i in places else replace(match, nested=True) for i, match in enumerate(matches)
    ]
    return sorted(marked, key=lambda match: (match.start, -match.end))


def resolve(
    matches: Iterable[Match], types: Mapping[str, str | None], context: Mapping[str, int]
) -> list[Match]:
    """Disambiguate homonyms where possible, else keep all entities.

    Prefer the entity with most related entities in the text (`context`: entity id -> their number),
    then the most frequent type among unambiguous matches.
    """
    matches = list(matches)
    common: dict[str | None, int] = {}
    for match in matches:
        if len(match.entity_ids) == 1 and not match.nested:
            kind = types.get(match.entity_ids[0])
            common[kind] = common.get(kind, 0) + 1
    return [
        match if len(match.entity_ids) == 1 else _decide(match, types, common, context)
        for match in matches
    ]


def _decide(
    match: Match,
    types: Mapping[str, str | None],
    common: Mapping[str | None, int],
    context: Mapping[str, int],
) -> Match:
    def weight(entity: str) -> tuple[int, int]:
        return context.get(entity, 0), common.get(types.get(entity), 0)

    best = max(weight(entity) for entity in match.entity_ids)
    ids = tuple(entity for entity in match.entity_ids if weight(entity) == best)
    return replace(match, entity_ids=ids)


_SHORT = re.compile(r"[(\[]\s*([^\W_][\w./+-]{0,9}(?:\s[\w./+-]{1,9})?)\s*[)\];,]")
_TOKEN = re.compile(r"\S+")


def abbreviations(text: str) -> list[Abbreviation]:
    """Return the abbreviations that a text defines as `long form (SF)`.

    Rule of Schwartz & Hearst, "A simple algorithm for identifying abbreviation definitions in
    biomedical text" (PSB 2003): every character of the short form occurs in order in the long form,
    matched from the end, the first at the start of a word; the long form has at most min(n + 5, 2n)
    words.
    """
    pairs: list[Abbreviation] = []
    for match in _SHORT.finditer(text):
        short = match.group(1)
        if not 2 <= len(short) <= 10 or not any(map(str.isupper, short)):
            continue
        before = text[max(0, match.start() - 200) : match.start()]
        letters = sum(character.isalnum() for character in short)
        tokens = list(_TOKEN.finditer(before))[-min(letters + 5, letters * 2) :]
        if not tokens:
            continue
        window = before[tokens[0].start() :].rstrip()
        place = _long_form(short, window)
        if place is not None:
            long = window[place:]
            if len(long) > len(short) and fold(short) not in fold(long).split():
                start = match.start() - len(before) + tokens[0].start() + place
                pairs.append(Abbreviation(long, short, start, match.end(1)))
    return pairs


def _long_form(short: str, window: str) -> int | None:
    at = len(window)
    for i in range(len(short) - 1, -1, -1):
        letter = short[i].lower()
        if not letter.isalnum():
            continue
        at -= 1
        while at >= 0 and (
            window[at].lower() != letter or (i == 0 and at > 0 and window[at - 1].isalnum())
        ):
            at -= 1
        if at < 0:
            return None
    return at
