"""A question becomes a word query: no operator of the query language can be reached from it."""

import re

MAX_WORDS = 64
MAX_WORD_CHARACTERS = 64
STOP_WORDS = frozenset(
    """
    a about above after again against all also am an and any are aren as at be because been before
    being below between both but by can cannot could couldn did didn do does doesn doing don down
    during each few for from further had hadn has hasn have haven having he her here hers herself
    him himself his how i if in into is isn it its itself just ll m me might more most must my
    myself no nor not now of off on once only or other our ours ourselves out over own re s same
    shall shan she should shouldn so some such t than that the their theirs them themselves then
    there these they this those through to too under until up ve very was wasn we were weren what
    when where which while who whom why will with won would wouldn you your yours yourself
    yourselves
    """.split()  # noqa: SIM905  # a list of 150 quoted words would be harder to read
)

_WORD = re.compile(r"[^\W_]+")


def content_words(text: str) -> tuple[str, ...]:
    """List the distinct words that tell something, in their order; at most 64.

    Of more the longest stay: long words are rare ones, and every match costs time.
    """
    words = dict.fromkeys(
        word[:MAX_WORD_CHARACTERS]
        for word in (found.group().casefold() for found in _WORD.finditer(text))
        if word not in STOP_WORDS
    )
    if len(words) <= MAX_WORDS:
        return tuple(words)
    kept = set(sorted(words, key=lambda word: (-len(word), word))[:MAX_WORDS])
    return tuple(word for word in words if word in kept)


def match_expression(text: str) -> str | None:
    """Write an FTS5 expression of quoted words joined by OR; None when no word is left."""
    words = content_words(text)
    return " OR ".join(f'"{word}"' for word in words) if words else None
