"""HTTP embedder."""

import time
from collections.abc import Sequence
from itertools import batched
from typing import Any

from pydantic import BaseModel, FiniteFloat, TypeAdapter

from docstokg.adapters.http.json_post import Credential, Endpoint, checked, first_that_answers
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import embedded_apart, pack
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

_VECTORS = TypeAdapter(list[list[FiniteFloat]])


class _Row(BaseModel):
    index: int
    embedding: list[FiniteFloat]


class _Reply(BaseModel):
    data: list[_Row]
    model: str | None = None


class HttpEmbedder:
    """An `Embedder` over HTTP; all of `base_urls` must serve the same model.

    Another model or vector length in a response raises `WrongAnswer`.
    """

    def __init__(
        self,
        *,
        provider: str,
        base_urls: Sequence[str],
        model: str | None,
        dimension: int | None,
        api_key: Credential,
    ) -> None:
        self._provider = provider
        self.model = model or MODELS[provider]
        size = dimension or DIMENSIONS.get(self.model)
        if size is None:
            raise Misconfigured(f"set DOCSTOKG_EMBED_DIMENSION for the model {self.model!r}")
        self.dimension = size
        self._shortened = dimension is not None and dimension != DIMENSIONS.get(self.model)
        urls = base_urls or [ADDRESSES[provider].format(model=self.model)]
        path = "" if provider in ("hf", "bedrock") else "/embeddings"
        self._endpoints = [Endpoint(url.rstrip("/") + path, api_key) for url in urls]

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one unit vector per text; raise errors as `Endpoint.post`.

        Without a limit (loading) each batch is tried up to four times.
        """
        vectors: list[bytes] = []
        for batch in map(list, batched(texts, _BATCH)):
            if deadline and deadline.is_over():
                raise Timeout(f"{len(vectors)} of {len(texts)} texts were embedded in time")
            vectors += (
                self._patiently(batch) if deadline is None else self._embedded(batch, deadline)
            )
        return tuple(vectors)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Embed as `embedded_apart` does."""
        return embedded_apart(self.embed, texts, parts)

    def _patiently(self, batch: list[str]) -> list[bytes]:
        for attempt in range(_LOADING_TRIES - 1):
            try:
                return self._embedded(batch, Deadline.after(_LOADING_TIME_S))
            except Retryable:
                time.sleep(2.0**attempt)
        return self._embedded(batch, Deadline.after(_LOADING_TIME_S))

    def _embedded(self, batch: list[str], deadline: Deadline) -> list[bytes]:
        return first_that_answers(
            self._endpoints,
            self._payload(batch),
            lambda answer: self._read(answer, len(batch)),
            deadline,
        )

    def _payload(self, batch: list[str]) -> dict[str, Any]:
        if self._provider == "hf":
            return {"inputs": batch, "normalize": True, "truncate": True}
        payload: dict[str, Any] = {"model": self.model, "input": batch}
        if self._provider == "jina":
            # One task for questions and passages, since the port does not distinguish them.
            return payload | {"task": "text-matching", "dimensions": self.dimension}
        if self._shortened:
            payload["dimensions"] = self.dimension
        return payload | {"encoding_format": "float"}

    def _read(self, answer: Any, count: int) -> list[bytes]:
        vectors = self._vectors(answer)
        if len(vectors) != count:
            raise WrongAnswer(f"{self.model}: {count} vectors were expected")
        if any(len(vector) != self.dimension or not any(vector) for vector in vectors):
            raise WrongAnswer(f"{self.model}: a vector is not of {self.dimension}, or all zero")
        try:
            return [pack(vector) for vector in vectors]
        except OverflowError as unbounded:
            raise WrongAnswer(f"{self.model}: {unbounded}") from unbounded

    def _vectors(self, answer: Any) -> list[list[float]]:
        if self._provider == "hf":
            return checked(_VECTORS, answer, self.model)
        reply = checked(_Reply, answer, self.model)
        if reply.model is not None and not _same_model(reply.model, self.model):
            raise WrongAnswer(f"{reply.model!r} answered instead of {self.model!r}")
        rows = sorted(reply.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(len(rows))):
            raise WrongAnswer(f"{self.model}: the vectors are not numbered one by one")
        return [row.embedding for row in rows]


def _same_model(answer_name: str, target: str) -> bool:
    left, right = (
        name.casefold().rpartition("/")[2].partition(":")[0] for name in (answer_name, target)
    )
    return left == right
