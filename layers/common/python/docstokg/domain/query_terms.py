"""Which words and tokens of a question every store searches for, and how much each counts."""

import math
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
_OPTION = re.compile(r"(?<![\w-])(--?)([A-Za-z0-9][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)*)(?![\w])")


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


def option_words(text: str) -> tuple[str, ...]:
    """List the distinct command options of a text, each as one word of letters and digits.

    `-k`, `-K` and `--k` are three options, and word indexes fold case and drop hyphens: they
    become `opt1k0`, `opt1capk0` and `opt2k0`. The last digit keeps stemmers away.
    """
    found: dict[str, None] = {}
    for match in _OPTION.finditer(text):
        hyphens, name = match.groups()
        letters = "".join(
            f"cap{c.lower()}" if c.isupper() else c if c.isalnum() else "0" for c in name
        )
        found[f"opt{len(hyphens)}{letters[:MAX_WORD_CHARACTERS]}0"] = None
    return tuple(found)


def indexed_text(text: str) -> str:
    """Give a text as word indexes take it: with its options as words of their own."""
    options = option_words(text)
    return f"{text} {' '.join(options)}" if options else text


def rarity(holders: int, rows: int) -> float:
    """Weigh a token by log(1 + (n - df + 0.5) / (df + 0.5)), as BM25 does for words.

    The encoder saw other texts than these: see docs/decisions/sparse-queries.md.
    """
    return math.log(1 + (rows - holders + 0.5) / (holders + 0.5))
