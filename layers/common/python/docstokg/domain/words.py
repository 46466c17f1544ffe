"""Words, and the one form in which names are compared."""

import re
import unicodedata
from typing import Final

WORD: Final = re.compile(r"[^\W_]+")
"""A run of letters and digits of any script."""

_NOT_WORD: Final = re.compile(r"[\W_]+")


def fold(text: str) -> str:
    """NFKC, casefold, every run of non-alphanumerics one space, trimmed; else the trimmed text."""
    folded = _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    return folded or text.strip()
