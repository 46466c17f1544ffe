"""Vectors from Jina, from any OpenAI-compatible address, or from Hugging Face (or TEI)."""

import math
import time
from collections.abc import Sequence
from typing import Any

from docstokg.adapters.http.json_post import Endpoint, first_that_answers
from docstokg.domain.vectors import pack, packed
from docstokg.errors import Misconfigured, Retryable, Timeout, WrongAnswer
from docstokg.ports import Parts, Spans

ADDRESSES = {
    "jina": "https://api.jina.ai/v1",
    "openai": "https://api.openai.com/v1",
    "hf": "https://router.huggingface.co/hf-inference/models/{model}/pipeline/feature-extraction",
}
MODELS = {
    "jina": "jina-embeddings-v3",
    "openai": "text-embedding-3-small",
    "hf": "sentence-transformers/all-MiniLM-L6-v2",
}
DIMENSIONS = {
    "jina-embeddings-v3": 1024,
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
    "sentence-transformers/all-MiniLM-L6-v2": 384,
    "BAAI/bge-small-en-v1.5": 384,
    "BAAI/bge-m3": 1024,
    "nomic-embed-text": 768,
}
_BATCH = 64
_LOADING_TIME_S = 60.0
_LOADING_TRIES = 4


class HttpEmbedder:
    """An `Embedder` over HTTP; all of `base_urls` must serve the same model, which is checked.

    A provider that names another model than the one asked for, or vectors of another length, is
    a `WrongAnswer`: two vector spaces are never mixed.
    """

    def __init__(
        self,
        *,
        provider: str,
        base_urls: Sequence[str],
        model: str | None,
        dimension: int | None,
        api_key: str | None,
    ) -> None:
        if provider not in ADDRESSES:
            raise Misconfigured(f"there is no embedding provider {provider!r}")
        self._provider = provider
        self._model = model or MODELS[provider]
        size = dimension or DIMENSIONS.get(self._model)
        if size is None:
            raise Misconfigured(f"set DOCSTOKG_EMBED_DIMENSION for the model {self._model!r}")
        self._dimension = size
        self._shortened = dimension is not None and dimension != DIMENSIONS.get(self._model)
        urls = base_urls or [ADDRESSES[provider].format(model=self._model)]
        path = "" if provider == "hf" else "/embeddings"
        self._endpoints = [Endpoint(url.rstrip("/") + path, api_key) for url in urls]

    @property
    def model(self) -> str:
        """Name the vector space."""
        return self._model

    @property
    def dimension(self) -> int:
        """Give the number of components."""
        return self._dimension

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Return one unit vector per text; without a limit (loading) failures are retried."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        vectors: list[bytes] = []
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            if until is None:
                vectors += self._patiently(batch)
                continue
            left = until - time.monotonic()
            if left <= 0:
                raise Timeout(f"{start} of {len(texts)} texts were embedded in time")
            vectors += self._embedded(batch, left)
        return tuple(vectors)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Embed texts and stretches alike: an endpoint tells nothing of its reading."""
        whole = self.embed(texts, None)
        pieces = [text[a:b] for text, spans in zip(texts, parts, strict=True) for a, b in spans]
        vectors = iter(self.embed(pieces, None))
        return tuple(
            (one, packed([next(vectors) for _ in spans]))
            for one, spans in zip(whole, parts, strict=True)
        )

    def _patiently(self, batch: list[str]) -> list[bytes]:
        for attempt in range(_LOADING_TRIES - 1):
            try:
                return self._embedded(batch, _LOADING_TIME_S)
            except Retryable:
                time.sleep(2.0**attempt)
        return self._embedded(batch, _LOADING_TIME_S)

    def _embedded(self, batch: list[str], timeout_s: float) -> list[bytes]:
        return first_that_answers(
            self._endpoints,
            self._payload(batch),
            lambda answer: self._read(answer, len(batch)),
            timeout_s,
        )

    def _payload(self, batch: list[str]) -> dict[str, Any]:
        if self._provider == "hf":
            return {"inputs": batch, "normalize": True, "truncate": True}
        payload: dict[str, Any] = {"model": self._model, "input": batch}
        if self._provider == "jina":
            # One task for questions and passages, since the port does not tell them apart.
            return payload | {"task": "text-matching", "dimensions": self._dimension}
        if self._shortened:
            payload["dimensions"] = self._dimension
        return payload | {"encoding_format": "float"}

    def _read(self, answer: Any, count: int) -> list[bytes]:
        rows = answer if self._provider == "hf" else self._rows(answer)
        if not isinstance(rows, list) or len(rows) != count:
            raise WrongAnswer(f"{self._model}: {count} vectors were expected")
        return [self._vector(row) for row in rows]

    def _rows(self, answer: Any) -> list[Any]:
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            raise WrongAnswer(f"{self._model}: the answer holds no list of vectors")
        answered_by = answer.get("model")
        if isinstance(answered_by, str) and not _same_model(answered_by, self._model):
            raise WrongAnswer(f"{answered_by!r} answered instead of {self._model!r}")
        places = [row.get("index") for row in data]
        if sorted(places, key=str) != sorted(range(len(data)), key=str):
            raise WrongAnswer(f"{self._model}: the vectors are not numbered one by one")
        return [row.get("embedding") for row in sorted(data, key=lambda row: int(row["index"]))]

    def _vector(self, row: Any) -> bytes:
        if not isinstance(row, list) or len(row) != self._dimension:
            length = len(row) if isinstance(row, list) else "no"
            raise WrongAnswer(f"{self._model}: {length} numbers instead of {self._dimension}")
        if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in row):
            raise WrongAnswer(f"{self._model}: a vector holds something that is no number")
        if not all(map(math.isfinite, row)) or not any(row):
            raise WrongAnswer(f"{self._model}: a vector is not finite or all zero")
        return pack(row)


def _same_model(answer_name: str, target: str) -> bool:
    """Compare names without organisation, tag and case, which servers drop or add."""
    left, right = (
        name.casefold().rpartition("/")[2].partition(":")[0] for name in (answer_name, target)
    )
    return left == right
