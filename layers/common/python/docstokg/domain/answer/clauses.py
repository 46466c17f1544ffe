"""Sentences cut into clauses, each with what it takes over from the words around it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from docstokg.domain.answer.lexicon import lexicon
from docstokg.domain.answer.tables import cells as cells_of
from docstokg.domain.answer.tables import is_rule
from docstokg.domain.text.quantities import MONTH_WORDS, NUMBER_WORDS, Quantity, quantities
from docstokg.domain.text.sentences import Span, sentence_spans
from docstokg.domain.text.wording import IRREGULAR, NEGATIONS
from docstokg.domain.text.words import STOP_WORDS, normalise, stem

_AUXILIARIES_TEXT: Final = (
    "is are was were be been being has have had do does did can could may might must shall should "
    "will would cannot"
)
AUXILIARIES: Final = frozenset(_AUXILIARIES_TEXT.split())
_DETERMINERS_TEXT: Final = (
    "a an the this that these those its their his her our your my no any each every some all both "
    "of in on at by with from for as into during after before"
)
_DETERMINERS: Final = frozenset(_DETERMINERS_TEXT.split())
_SMALL: Final = STOP_WORDS | _DETERMINERS
_PRONOUNS: Final = frozenset(("it", "they", "he", "she", "which", "who", "its", "their"))
_UNCHANGED: Final = frozenset(("put", "set", "read", "cut", "found", "left", "let", "shut", "hit"))
_ADVERBS: Final = frozenset(("also", "always", "never", "often", "usually", "only", "then", "now"))
_PREPOSITIONS_TEXT: Final = (
    "of in on at by with from for to into between below above under over until after before "
    "through during within"
)
PREPOSITIONS: Final = frozenset(_PREPOSITIONS_TEXT.split())
_LONG: Final = 5
_ARTICLES: Final = frozenset(("a", "an", "the", "its", "their", "his", "her"))
_OBJECTS: Final = _ARTICLES | {"it", "them"}
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019][a-z]+)?", re.IGNORECASE)
# No sign inside a number, a date or an id ends a clause.
_BORDER: Final = re.compile(
    r"[;:](?=\s)|(?<=\w\w)[.!?](?=\s)|,(?=\s)(?!\s\d{4}\b)|\s[\u2013\u2014-]\s"
    r"|(?<=\s)(?:and|but|while|whereas|although|though|which|who|because|however)\b",
    re.IGNORECASE,
)


@cache
def months() -> frozenset[str]:
    """Return the stems of the names of months."""
    return frozenset(map(stem, MONTH_WORDS))


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: `words` folded and in order, `subject` and `rest` its stems around the verb.

    Numbers are among the stems as values (`#8` for "8" and for "eight"). `topic`: what a pronoun
    behind it stands for. `taken`: stems it has from elsewhere: an elided or pronominal subject, an
    elided verb, the names of row and column. `own_subject`: whether it
    names its subject itself. `sides`: its text before the verb, and from it on.
    """

    text: str
    words: tuple[str, ...]
    subject: frozenset[str]
    verb: frozenset[str]
    rest: frozenset[str]
    topic: frozenset[str]
    taken: frozenset[str]
    groups: Mapping[str, Sequence[str]]
    quantities: tuple[Quantity, ...]
    own_subject: bool
    sides: tuple[str, str]

    @property
    def own(self) -> frozenset[str]:
        """Give the stems that stand in it."""
        return self.subject | self.verb | self.rest

    @property
    def stems(self) -> frozenset[str]:
        """Give all its stems, those taken over as well."""
        return self.own | self.taken


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, a row of a table or a list item at `text[start:end]` of its passage."""

    start: int
    end: int
    text: str
    clauses: tuple[Clause, ...]
    stems: frozenset[str]
    is_row: bool = False


@lru_cache(maxsize=4096)
def words_of(text: str) -> tuple[str, ...]:
    """Return the folded words of a sentence in order, contractions in one piece."""
    if text.isascii():
        return tuple(_WORD.findall(text.lower()))
    return tuple(normalise(match[0]).replace("\u2019", "'") for match in _WORD.finditer(text))


def is_denial(word: str) -> bool:
    """Tell whether a word denies."""
    return word in NEGATIONS or word.endswith("n't")


@lru_cache(maxsize=512)
def read_sentences(text: str) -> tuple[Sentence, ...]:
    """Read a passage: its sentences, the rows of its tables with the names of their columns."""
    made: list[Sentence] = []
    columns: tuple[str, ...] = ()
    for span in sentence_spans(text):
        own = text[span.start : span.end]
        lines = own.split("\n")
        cells = cells_of(lines[-1])
        if len(lines) > 1 and is_rule(cells):
            columns = cells_of(lines[-2])
            continue
        if cells and not is_rule(cells):
            made.append(_row(span, own, cells, columns))
            continue
        columns = ()
        before = made[-1].clauses[-1] if made and made[-1].clauses else None
        clauses = read_clauses(own, before)
        stems = frozenset().union(*(clause.own for clause in clauses))
        made.append(Sentence(span.start, span.end, own, clauses, stems))
    return tuple(made)


def _row(span: Span, text: str, cells: Sequence[str], columns: Sequence[str]) -> Sentence:
    """Read each cell of a row as a clause about the row's name and the column's."""
    named = len(columns) == len(cells)
    head = stems_of(cells[0])
    clauses = [
        Clause(
            text=cell,
            words=words_of(cell),
            subject=frozenset(),
            verb=frozenset(),
            rest=stems_of(cell),
            topic=head,
            taken=head | stems_of(columns[place] if named else ""),
            groups={},
            quantities=quantities(cell),
            own_subject=True,
            sides=(cells[0], cell),
        )
        for place, cell in enumerate(cells)
        if (place or len(cells) == 1) and cell
    ]
    stems = head.union(*(clause.stems for clause in clauses))
    return Sentence(span.start, span.end, text, tuple(clauses), stems, is_row=True)


def read_clauses(sentence: str, before: Clause | None = None) -> tuple[Clause, ...]:
    """Cut a sentence into clauses; `before`: the last one of the sentence before it."""
    clauses: list[Clause] = []
    last = before
    for number, (border, part) in enumerate(_parts(sentence)):
        last = _clause(part, last, is_first=number == 0, border=border)
        clauses.append(last)
    return tuple(clauses)


def _parts(sentence: str) -> list[tuple[str, str]]:
    """Cut at borders; what says nothing by itself stays with its neighbour.

    Returns each part with the border before it.
    """
    pieces: list[tuple[str, str]] = []
    at, border = 0, ""
    for match in _BORDER.finditer(sentence):
        pieces.append((border, sentence[at : match.start()].strip()))
        at, border = match.end(), match[0].casefold()
    pieces.append((border, sentence[at:].strip()))
    parts: list[tuple[str, str]] = []
    held = ""
    for border, piece in pieces:
        if not any(map(str.isalnum, piece)):
            continue
        whole = f"{held}, {piece}" if held else piece
        if _says_something(piece, is_first=not parts) or (parts and _is_gapped(piece)):
            parts.append((border, whole))
            held = ""
        else:
            held = whole
    if held and parts:
        parts[-1] = (parts[-1][0], f"{parts[-1][1]}, {held}")
    elif held:
        parts.append(("", held))
    return parts or [("", sentence)]


def _says_something(piece: str, *, is_first: bool) -> bool:
    words = words_of(piece)
    return (
        _verb_at(words, is_first=is_first) is not None
        or bool(quantities(piece))
        or any(map(is_denial, words))
    )


def _is_gapped(piece: str) -> bool:
    """Tell whether a piece sets one more thing beside another ("the house of brick")."""
    words = words_of(piece)
    return 0 < _subject_end(words) < len(words)


def _subject_end(words: Sequence[str]) -> int:
    """Return where the words that a clause without a verb speaks of end.

    At its first preposition or number, or at an article behind a noun ("Ann the engine").
    """
    for at, word in enumerate(words):
        named = at > 0 and words[at - 1] not in STOP_WORDS
        if word in PREPOSITIONS or _is_number(word) or (named and word in _ARTICLES):
            return at
    return len(words)


def _verb_at(words: Sequence[str], *, is_first: bool = True) -> int | None:
    """Return the place of the first auxiliary, else of the first word that is used as a verb."""
    for place, word in enumerate(words):
        beside = words[max(0, place - 1) : place + 2]
        is_month = word == "may" and any(map(_is_number, beside))
        is_auxiliary = (word in AUXILIARIES or word.endswith("n't")) and not is_month
        if is_auxiliary and (place or not is_first):
            return place
    verbs = lexicon().verbs
    for place, word in enumerate(words):
        known = word in verbs or (word.endswith("ed") and len(word) > _LONG)
        behind = words[place + 1 : place + 2]
        if known and (_is_told(words, place + 1) or any(_is_present(other) for other in behind)):
            continue
        if (known or _is_told(words, place)) and (
            words[place - 1] not in _DETERMINERS if place else not is_first or len(words) == 1
        ):
            return place
    return None


def _is_present(word: str) -> bool:
    return word in lexicon().verbs and word.endswith("s")


def _is_told(words: Sequence[str], place: int) -> bool:
    """Tell whether a noun's plural stands where only a verb can: "red means a", "it costs 4"."""
    if place >= len(words):
        return False
    word, behind = words[place], words[place + 1 : place + 2]
    return (
        place > 0
        and word.endswith("s")
        and words[place - 1] not in STOP_WORDS
        and not _is_number(words[place - 1])
        and any(other in _OBJECTS or _is_number(other) for other in behind)
    )


def has_verb(text: str) -> bool:
    """Tell whether a text holds a verb, as its first word too."""
    return _verb_at(words_of(text), is_first=False) is not None


def _clause(part: str, before: Clause | None, *, is_first: bool, border: str) -> Clause:
    words = words_of(part)
    starts = [match.start() for match in _WORD.finditer(part)]
    # "Bottles are kept in the cellar, opened ones in the fridge": a comma alone leads no verb.
    at = _verb_at(words, is_first=is_first or border == ",")
    if at is None:
        begin = end = 0 if words and is_denial(words[0]) else _subject_end(words)
    else:
        begin, end = at, _verb_end(words, at)
    place = [*starts, len(part)]
    subject, verb, rest = part[: place[begin]], part[place[begin] : place[end]], part[place[end] :]
    own = topic = stems_of(subject)
    is_named = any(not name.startswith("#") for name in own)
    taken: frozenset[str] = frozenset()
    refers = bool(_PRONOUNS.intersection(words[:begin]))
    if refers:
        topic = before.topic if before is not None else frozenset()
        taken = topic
    groups = _groups(words[end:])
    if before is not None:
        is_gapped = at is None and not is_first
        taken |= _elided(groups, before.groups, is_gapped=is_gapped)
        if is_gapped or (end == len(words) and not stems_of(verb)):
            # "Proxies are supported, redirects are not."
            taken |= before.verb | (frozenset() if is_gapped else before.rest)
        if not is_named and not refers:
            taken |= before.subject | (before.taken - before.verb)
            topic = before.topic
    return Clause(
        text=part,
        words=words,
        subject=own,
        verb=stems_of(verb),
        rest=stems_of(rest),
        topic=topic,
        taken=taken - stems_of(part),
        groups=groups,
        quantities=quantities(part),
        own_subject=is_named and not refers,
        sides=(subject.strip(), part[place[begin] :].strip()),
    )


def _groups(words: Sequence[str]) -> dict[str, list[str]]:
    """Return the content stems behind each preposition, those before the first one under ""."""
    groups: dict[str, list[str]] = {"": []}
    group = ""
    for word in words:
        if word in PREPOSITIONS:
            group = word
            groups.setdefault(group, [])
        else:
            groups[group] += (name for name in stems_of(word) if not name.startswith("#"))
    return groups


def _elided(
    own: Mapping[str, Sequence[str]], before: Mapping[str, Sequence[str]], *, is_gapped: bool
) -> frozenset[str]:
    """Return what a clause leaves out because the one before it has said it.

    In the same place the words that its own ones do not replace ("on 26 channels ... on 14"), and
    all places that a clause without a verb does not fill itself.
    """
    return frozenset(
        name
        for place, names in before.items()
        if place in own or is_gapped
        for name in names[len(own.get(place, ())) :]
        if is_gapped or (place and not own[place])
    )


def _verb_end(words: Sequence[str], at: int) -> int:
    """Return where a verb ends: behind the full verb that auxiliaries lead to."""
    end = at + 1
    if words[at] not in AUXILIARIES and not is_denial(words[at]):
        return end
    while end < len(words) and (
        words[end] in AUXILIARIES or words[end] in _ADVERBS or is_denial(words[end])
    ):
        end += 1
    is_verb = end < len(words) and words[end] not in STOP_WORDS
    return end + 1 if is_verb and is_participle(words[end]) else end


def is_participle(word: str) -> bool:
    """Tell whether a word may be a participle."""
    return word.endswith(("ed", "ing")) or word in IRREGULAR or word in _UNCHANGED


def _is_number(word: str) -> bool:
    return word[0].isdigit() or word in NUMBER_WORDS


@lru_cache(maxsize=8192)
def stems_of(text: str) -> frozenset[str]:
    """Return the content stems of a text, numbers as values and without the words that deny."""
    return frozenset(
        [
            *(
                stem(word)
                for word in words_of(text)
                if word not in _SMALL and not _is_number(word) and not is_denial(word)
            ),
            *(name for number in quantities(text) for name in values_of(number)),
        ]
    )


def values_of(number: Quantity) -> frozenset[str]:
    """Return a number as the stem of its value, a date as those of its year and of its day."""
    if number.date is None:
        return frozenset((f"#{number.value:g}",))
    year, month, day = number.date
    parts = (f"#{year}" if year else "", f"#{month}-{day or ''}" if month else "")
    return frozenset(filter(None, parts))
