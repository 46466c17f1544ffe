"""Words too common to be names: lower-case English of encyclopaedia, abstracts and manuals alike.

`everyday.txt` was counted over Wikipedia passages, research abstracts, health pages and 5,834
manual pages of a Linux machine: frequent in three of the four, or in fifty manuals and more, and
written small at least three times as often as with a capital. Months, weekdays, parts of
documents, nouns of titles (king, street), words of programming and short verbs were added.
"""

from importlib import resources

from docstokg.domain.text.folding import singular
from docstokg.domain.text.words import STOP_WORDS

EVERYDAY = frozenset(
    resources.files(__package__).joinpath("everyday.txt").read_text("utf-8").split()
)


def is_everyday(word: str) -> bool:
    """Tell whether a folded word, or its singular, is one that texts of any subject use."""
    return word in STOP_WORDS or word in EVERYDAY or singular(word) in EVERYDAY
