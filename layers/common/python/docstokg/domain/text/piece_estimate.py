"""Word piece estimate."""

import re

_WORD = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]")
LETTERS, DIGITS = 3, 2


def piece_starts(text: str) -> list[int]:
    """Return possible starts of word pieces, in code points: every 3 letters, 2 digits or 1 other.

    Runs of rare letters or digits can be underestimated.
    """
    starts: list[int] = []
    for match in _WORD.finditer(text):
        step = LETTERS if match[0][0].isalpha() else DIGITS
        starts.extend(range(match.start(), match.end(), step))
    return starts
