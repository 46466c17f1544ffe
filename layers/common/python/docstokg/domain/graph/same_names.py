"""Same-name detection."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from docstokg.domain.graph.linking import abbreviations
from docstokg.domain.identity import is_curie
from docstokg.domain.text.everyday import is_everyday
from docstokg.domain.text.names import capitalised_names, is_definition, is_proper, prose, tidy
from docstokg.domain.text.words import fold

# Type of the relation between two names of one entity; weight 0 denies it.
SAME_AS = "SAME_AS"

# Starts only where no space precedes, so that a run of spaces is scanned once.
_PHRASE = re.compile(
    r"(?<!\s)\s*+[,(]?\s*+(?:\b(?:is|was|are|were)\s+)?"
    r"(?:\b(also|formerly|previously|otherwise|originally|better|commonly|sometimes)\s+"
    r"(?:known|called|named)(?:\s+as)?(?=[\s\"“])|(?<=\()(formerly)\s)"
)
_OTHER = re.compile(
    r"\s*+(?:[\"“](?P<quoted>[^\"”]{2,60})[\"”]|(?P<plain>[^,.;()\[\]\n\"“”]{2,80}))"
)
_LIST = re.compile(
    r"(?<!\s)\s++(?:or|(and|in)|is|was|are|were|on|by|for|from|to|at|which|who|that|until|because|since)\s"
)
_FORMER = ("formerly", "previously", "originally")
_BEFORE = 120
# Text before a complete name; after other words, or on the same line, it may be a part of one.
_BEGINS = re.compile(r"(?:\A|[.!?;(]|\b[Tt]he)\Z")


def are_distinct(first: str, second: str) -> bool:
    """Return whether two entities are known to differ: both have CURIE ids."""
    return is_curie(first) and is_curie(second)


class SameName(NamedTuple):
    """A statement at `text[start:end]` that `name` is also `other`."""

    name: str
    other: str
    reason: str
    start: int
    end: int


def same_names(text: str, title: str = "") -> Iterator[SameName]:
    """Yield the same-name statements of a text; `title`: its document's title."""
    clear = prose(text)
    if "(" in text or "[" in text:
        for abbreviation in abbreviations(clear):
            long = " ".join(abbreviation.long.split())
            if is_definition(long, abbreviation.short):
                yield SameName(
                    long, abbreviation.short, "abbreviation", abbreviation.start, abbreviation.end
                )
    for phrase in _PHRASE.finditer(clear):
        end = len(clear[: phrase.start()].rstrip())
        name = _last_name(clear[max(0, end - _BEFORE) : end], title)
        other = _OTHER.match(clear, phrase.end())
        if name is None or other is None:
            continue
        group = "quoted" if other["quoted"] else "plain"
        cut = None if other["quoted"] else _LIST.search(other[group])
        surface = other[group][: cut.start() if cut else None].rstrip()
        second = tidy(surface)
        part = cut and cut[1] and set(fold(second).split()) <= set(fold(name).split())
        if _is_whole(second) and not part and fold(second) != fold(name):
            former = phrase[2] or phrase[1] in _FORMER
            reason = "formerly" if former else "also called"
            last = other.start(group) + len(surface)
            yield SameName(name, second, reason, end - len(name), last)


def _last_name(before: str, title: str) -> str | None:
    last = before[-len(title) :] if title else ""
    if not last or fold(last) != fold(title):
        *_, last = "", *capitalised_names(before)
    if not last or not before.endswith(last):
        return None
    words = before[: -len(last)]
    visible = words.rstrip()
    return last if "\n" in words[len(visible) :] or _BEGINS.search(visible) else None


def _is_whole(name: str) -> bool:
    words = name.split()
    small = words and words[0].islower() and is_everyday(fold(words[0]))
    return is_proper(name) and not small and len(words[-1]) > 1
