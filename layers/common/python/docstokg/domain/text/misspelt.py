"""Spelling correction."""

from collections.abc import Collection, Iterable, Iterator
from string import ascii_lowercase

from docstokg.domain.text.everyday import is_everyday
from docstokg.domain.text.folding import MAX_QUESTION_KEYS, Words, words

# Minimum letters of a corrected word; shorter words have too many neighbours.
LEAST_MISSPELT = 6

# Maximum words of a question that are searched in the passages.
MOST_MISSPELT = 6


def candidates(question: str) -> tuple[str, ...]:
    """Return the first 6 words of a question, folded and singular, that may be misspelt names."""
    forms = dict.fromkeys(form for form in words(question).forms if _may_be_misspelt(form))
    return tuple(forms)[:MOST_MISSPELT]


def near_keys(
    question: str, taken: Iterable[tuple[int, int]], absent: Collection[str]
) -> dict[str, tuple[int, int]]:
    """Map texts within one edit of 1 to 3 words of a question to the positions of those words.

    At most 4,000. An edit inserts, deletes, replaces or swaps a letter other than the first, in a
    word of `absent` and `candidates` outside `taken`.
    """
    question_words, keys = words(question), dict[str, tuple[int, int]]()
    covered = [any(s < end and start < e for s, e in taken) for start, end in question_words.spans]
    for size in (1, 2, 3):
        for first in range(len(question_words.forms) - size + 1):
            part = range(first, first + size)
            if not any(covered[i] for i in part):
                place = question_words.spans[first][0], question_words.spans[first + size - 1][1]
                for near in _near(question_words, part, absent):
                    keys.setdefault(near, place)
                    if len(keys) == MAX_QUESTION_KEYS:
                        return keys
    return keys


def _near(question_words: Words, part: range, absent: Collection[str]) -> Iterator[str]:
    for i in part:
        word = question_words.forms[i]
        if word in absent and _may_be_misspelt(word):
            for near in _one_edit(word):
                yield " ".join(near if k == i else question_words.forms[k] for k in part)


def _may_be_misspelt(word: str) -> bool:
    return len(word) >= LEAST_MISSPELT and word.isalpha() and not is_everyday(word)


def _one_edit(word: str) -> Iterator[str]:
    for i in range(1, len(word) + 1):
        head, tail = word[:i], word[i:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in ascii_lowercase:
            if tail:
                yield head + letter + tail[1:]
            yield head + letter + tail
