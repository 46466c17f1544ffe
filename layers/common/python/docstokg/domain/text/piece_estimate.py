"""How long a text is for an encoder, guessed without its vocabulary, on the high side."""

import re

_WORD = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]")
LETTERS, DIGITS = 3, 2


def piece_starts(text: str) -> list[int]:
    """List where word pieces may begin, in code points, at most 3 letters or 2 digits each.

    In this project's own documents no stretch of 250 pieces of the local encoder counts less
    (tests/unit/test_loading_documents.py); a run of rare letters or digits can.
    """
    starts: list[int] = []
    for match in _WORD.finditer(text):
        step = LETTERS if match[0][0].isalpha() else DIGITS
        starts.extend(range(match.start(), match.end(), step))
    return starts
