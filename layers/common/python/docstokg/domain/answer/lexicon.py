"""What is known of English words: which are verbs, how rare each is, which mean nearly the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

_NUMBER_RARITY = 5.0


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The committed file ready for use, counted by training/lexicon.py.

    In the file `idf` is ln(1 + passages / passages with a stem), written as text, to the stems that
    have it, separated by spaces; other stems have `rarest`. `verbs`: words used as verbs.
    """

    rarities: Mapping[str, float]
    rarest: float
    verbs: frozenset[str]

    def rarity(self, stem: str) -> float:
        """Return how rare a stem is; values (`#8`) are all as rare."""
        if stem.startswith("#"):
            return _NUMBER_RARITY
        return self.rarities.get(stem, self.rarest)


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Read the committed file."""
    text = resources.files(__package__).joinpath("lexicon.json").read_text("utf-8")
    file = json.loads(text)
    idf = file["idf"].items()
    rarities = {stem: float(value) for value, stems in idf for stem in stems.split()}
    return Lexicon(rarities, file["rarest"], frozenset(file["verbs"].split()))
