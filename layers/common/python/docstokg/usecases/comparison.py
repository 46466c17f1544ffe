"""Cosines of texts."""

import base64
from collections.abc import Sequence
from itertools import batched

from docstokg.domain.answer.citations import strip_markers
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import unpack
from docstokg.errors import DocsToKGError
from docstokg.ports import Embedder, encoder_of
from docstokg.usecases.run import Call

_MOST_CHARACTERS = 1000
_BATCH = 4


class Comparison:
    """Cosines from one embedder; each text is embedded once, a failure is logged once.

    Only the first 1,000 characters of a text are compared.
    """

    def __init__(
        self,
        call: Call,
        embedder: Embedder | None,
        deadline: Deadline,
        end: Deadline | None = None,
    ) -> None:
        """`deadline`: of all embedding; `end`: of the whole check (None: no limit)."""
        self._call, self._embedder = call, embedder
        self._deadline, self._end = deadline, end
        self._vectors: dict[str, bytes] = {}

    @property
    def is_late(self) -> bool:
        """Whether the time for the whole check is over."""
        return self._end is not None and self._end.is_over()

    def know(self, text: str, vector: str | None, model: str | None = None) -> None:
        """Add a vector (base64 of float32) of an earlier step, if its dimension fits.

        `model`: its encoder, used here.
        """
        self._embedder = encoder_of(self._embedder, model) or self._embedder
        if vector is None or self._embedder is None:
            return
        raw = base64.b64decode(vector)
        if len(raw) == 4 * self._embedder.dimension:
            self._vectors[text[:_MOST_CHARACTERS]] = raw

    def similarity(self, query: str, answer: str) -> float | None:
        """Return the cosine of a query and an answer without its markers.

        None for a blank query, or as `cosines`.
        """
        if not query.strip():
            return None
        values = self.cosines(query, [strip_markers(answer).strip() or answer])
        return values[0] if values else None

    def cosines(self, claim: str, texts: Sequence[str]) -> list[float] | None:
        """Return the cosine of a claim with each text.

        None if a text has no vector and the embedder is missing, fails or is out of time.
        """
        first, *others = (text[:_MOST_CHARACTERS] for text in (claim, *texts))
        if not self._embed([first, *others]):
            return None
        vector = unpack(self._vectors[first])
        return [float(vector @ unpack(self._vectors[other])) for other in others]

    def _embed(self, texts: Sequence[str]) -> bool:
        unique = dict.fromkeys(text for text in texts if text not in self._vectors)
        missing = sorted(unique, key=len)
        # A local encoder checks the time only between calls, so batches are small.
        for part in batched(missing, _BATCH):
            if self._deadline.is_over() or self._embedder is None:
                return False
            try:
                vectors = self._embedder.embed(part, self._deadline)
            except DocsToKGError as error:
                # Support and confidence work without cosines, so the answer is still returned.
                self._call.log("compare", error)
                self._embedder = None
                return False
            self._vectors.update(zip(part, vectors, strict=True))
        return True
