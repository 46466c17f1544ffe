"""Bedrock models."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, Field, FiniteFloat

from docstokg.adapters.http.embedder import HttpEmbedder
from docstokg.adapters.http.json_post import checked
from docstokg.adapters.http.reranker import HttpReranker
from docstokg.adapters.signing import Signer
from docstokg.contracts.language_models import BEDROCK_EMBEDDER, BEDROCK_RERANKER
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured

# Default dimension and maximum characters of a text, which is cut there: longer ones are refused.
# Titan takes 8,192 tokens.
EMBEDDERS = {
    BEDROCK_EMBEDDER: (1024, 8192),
    "cohere.embed-english-v3": (1024, 2048),
    "cohere.embed-multilingual-v3": (1024, 2048),
    "cohere.embed-v4:0": (1536, 128_000),
}
AT_ONCE = 8


class _Titan(BaseModel):
    embedding: list[FiniteFloat]


class _ByType(BaseModel):
    floats: list[list[FiniteFloat]] = Field(alias="float")


class _Cohere(BaseModel):
    embeddings: _ByType


class BedrockEmbedder(HttpEmbedder):
    """An `Embedder`: Titan Embed Text v2, or Cohere Embed v3 and v4."""

    def __init__(
        self, *, base_urls: Sequence[str], model: str | None, dimension: int | None
    ) -> None:
        """`model`: its id or inference profile."""
        model = model or BEDROCK_EMBEDDER
        base_model = next((name for name in EMBEDDERS if model.endswith(name)), None)
        if base_model is None:
            names = ", ".join(EMBEDDERS)
            raise Misconfigured(f"DOCSTOKG_EMBED_MODEL {model!r} is not one of {names}")
        default, self._longest = EMBEDDERS[base_model]
        signer = Signer("bedrock")
        super().__init__(
            provider="bedrock",
            base_urls=[_address(url, model, signer) for url in base_urls or [""]],
            model=base_model,  # the same vectors from every region and profile
            dimension=dimension or default,
            api_key=signer,
        )
        self._is_titan, self._is_v4 = (
            base_model == BEDROCK_EMBEDDER,
            base_model == "cohere.embed-v4:0",
        )
        self._input_type = "search_document"
        self._asking = copy(self)
        self._asking._input_type = "search_query"

    def embed_questions(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one unit vector per question; otherwise like `embed`."""
        return self._asking.embed(texts, deadline)

    def _embedded(self, batch: list[str], deadline: Deadline) -> list[bytes]:
        if not self._is_titan or len(batch) == 1:
            return super()._embedded(batch, deadline)
        pool = ThreadPoolExecutor(AT_ONCE)
        try:
            return list(pool.map(partial(self._embedding, deadline), batch))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _embedding(self, deadline: Deadline, text: str) -> bytes:
        (vector,) = super()._embedded([text], deadline)
        return vector

    def _payload(self, batch: list[str]) -> dict[str, Any]:
        texts = [text[: self._longest] for text in batch]
        if self._is_titan:
            return {"inputText": texts[0], "dimensions": self.dimension, "normalize": True}
        payload = {"texts": texts, "input_type": self._input_type, "embedding_types": ["float"]}
        if self._is_v4:
            return payload | {"output_dimension": self.dimension, "truncate": "RIGHT"}
        return payload | {"truncate": "END"}

    def _vectors(self, answer: Any) -> list[list[float]]:
        if self._is_titan:
            return [checked(_Titan, answer, self.model).embedding]
        return checked(_Cohere, answer, self.model).embeddings.floats


class BedrockReranker(HttpReranker):
    """A `Reranker`: Amazon Rerank or Cohere Rerank."""

    def __init__(self, *, base_url: str | None, model: str | None) -> None:
        """`model`: its id or ARN."""
        model, signer = model or BEDROCK_RERANKER, Signer("bedrock")
        at = _address(base_url, model, signer)
        super().__init__(provider="bedrock", base_url=at, model=model, api_key=signer)

    def _payload(self, query: str, passages: Sequence[str]) -> dict[str, Any]:
        payload = {"query": query, "documents": list(passages), "top_n": len(passages)}
        return payload | ({"api_version": 2} if "cohere." in self.model else {})


# InvokeModel needs a right per model and one VPC endpoint; the Rerank API needs a second endpoint
# and a right to all models.
def _address(url: str | None, model: str, signer: Signer) -> str:
    base = (url or f"https://bedrock-runtime.{signer.region}.amazonaws.com").rstrip("/")
    return f"{base}/model/{quote(model, safe='')}/invoke"
