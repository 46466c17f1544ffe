"""Everyday words: too common to be names.

`everyday.txt`: frequent in three of four corpora or fifty manuals; months, weekdays and others.
"""

from importlib import resources

from docstokg.domain.text.folding import singular
from docstokg.domain.text.words import STOP_WORDS

EVERYDAY = frozenset(
    resources.files(__package__).joinpath("everyday.txt").read_text("utf-8").split()
)


def is_everyday(word: str) -> bool:
    """Return whether a folded word or its singular is an everyday word."""
    return word in STOP_WORDS or word in EVERYDAY or singular(word) in EVERYDAY
