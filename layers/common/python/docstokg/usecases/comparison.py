"""How alike texts are: what verdicts and confidence ask beyond words, while there is time."""

import base64
import math
import time
from collections.abc import Sequence

from docstokg.domain.answer import citations as markers
from docstokg.domain.vectors import unpack
from docstokg.errors import DocsToKGError
from docstokg.ports import Embedder, encoder_of
from docstokg.usecases.run import Call

_LONGEST_COMPARED = 1000
_AT_ONCE = 4


class Comparison:
    """Vectors while time and embedder last; texts are embedded once, what fails is logged once."""

    def __init__(
        self, call: Call, embedder: Embedder | None, time_s: float, words_s: float = math.inf
    ) -> None:
        """`time_s`: seconds that all comparisons together may take; `words_s`: the whole check."""
        self._call, self._embedder = call, embedder
        now = time.monotonic()
        self._until, self._words_until = now + time_s, now + words_s
        self._vectors: dict[str, bytes] = {}

    @property
    def is_late(self) -> bool:
        """Tell whether what is not checked yet has to stay so."""
        return time.monotonic() > self._words_until

    def fetch(self, texts: Sequence[str]) -> bool:
        """Embed texts; False when there is no embedder or no time."""
        if self._embedder is None:
            return False
        cut = dict.fromkeys(text[:_LONGEST_COMPARED] for text in texts)
        missing = sorted((text for text in cut if text not in self._vectors), key=len)
        # A local encoder looks at the clock between calls only, so the calls are small.
        for start in range(0, len(missing), _AT_ONCE):
            part = missing[start : start + _AT_ONCE]
            left = self._until - time.monotonic()
            if left <= 0:
                return False
            try:
                vectors = self._embedder.embed(part, left)
            except DocsToKGError as error:
                # Verdicts and confidence do without, and say so: nothing else depends on it.
                self._call.log("compare", error)
                self._embedder = None
                return False
            self._vectors.update(zip(part, vectors, strict=True))
        return True

    def cosines(self, text: str, others: Sequence[str]) -> list[float] | None:
        """Return cosines with texts fetched before."""
        text, others = text[:_LONGEST_COMPARED], [other[:_LONGEST_COMPARED] for other in others]
        if text not in self._vectors or any(other not in self._vectors for other in others):
            return None
        one = unpack(self._vectors[text])
        return [float(one @ unpack(self._vectors[other])) for other in others]

    def know(self, text: str, vector: str | None, model: str | None = None) -> None:
        """Take a vector made by an earlier step, base64 of float32, and compare in its space."""
        self._embedder = encoder_of(self._embedder, model) or self._embedder
        if vector is None or self._embedder is None:
            return
        raw = base64.b64decode(vector)
        if len(raw) == 4 * self._embedder.dimension:
            self._vectors[text[:_LONGEST_COMPARED]] = raw

    def similarity(self, query: str, answer: str) -> float | None:
        """Return cosine(query, answer without markers)."""
        plain = markers.strip_markers(answer).strip() or answer
        if not query.strip() or not self.fetch([query, plain]):
            return None
        values = self.cosines(query, [plain])
        return values[0] if values else None
