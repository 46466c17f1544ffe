"""An embedder of bags of words: texts that share words are similar."""

import hashlib
from collections.abc import Sequence

import numpy as np

from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import pack

DIMENSION = 64


class WordVectors:
    """Bags of hashed words as vectors: texts that share words are similar."""

    model = "words"
    dimension = DIMENSION

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        vectors = []
        for text in texts:
            vector = np.zeros(DIMENSION, dtype=np.float32)
            for word in text.casefold().split():
                vector[hashlib.sha256(word.encode()).digest()[0] % DIMENSION] += 1
            vectors.append(pack(vector))
        return tuple(vectors)
