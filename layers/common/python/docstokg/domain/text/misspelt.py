"""What differs by one letter from the words of a question, for names that are written wrongly."""

from collections.abc import Iterable, Iterator
from string import ascii_lowercase

from docstokg.domain.text.everyday import is_everyday
from docstokg.domain.text.folding import MAX_QUESTION_KEYS, words

LEAST_MISSPELT = 6
"""Letters of a word that may be misspelt: of shorter ones too many differ by one."""


def near_keys(question: str, taken: Iterable[tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Map what differs by one letter from words of a question, alone or with two beside, to places.

    One letter may be missing, too many, another or exchanged with the next, of words of six
    letters or more that no name covers (`taken`: the places of names).
    """
    found, keys = words(question), dict[str, tuple[int, int]]()
    covered = [any(s < end and start < e for s, e in taken) for start, end in found.spans]
    for size in (1, 2, 3):
        for first in range(len(found.forms) - size + 1):
            part = range(first, first + size)
            if any(covered[i] for i in part):
                continue
            place = found.spans[first][0], found.spans[first + size - 1][1]
            for i in part:
                word = found.forms[i]
                if len(word) < LEAST_MISSPELT or not word.isalpha() or is_everyday(word):
                    continue
                for near in _one_edit(word):
                    form = [near if k == i else found.forms[k] for k in part]
                    keys.setdefault(" ".join(form), place)
                    if len(keys) == MAX_QUESTION_KEYS:
                        return keys
    return keys


def _one_edit(word: str) -> Iterator[str]:
    for i in range(len(word) + 1):
        head, tail = word[:i], word[i:]
        if tail:
            yield head + tail[1:]
        if len(tail) > 1:
            yield head + tail[1] + tail[0] + tail[2:]
        for letter in ascii_lowercase:
            if tail:
                yield head + letter + tail[1:]
            yield head + letter + tail
