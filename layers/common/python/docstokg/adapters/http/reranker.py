"""HTTP reranker."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from docstokg.adapters.http.json_post import Credential, Endpoint, checked
from docstokg.domain.deadline import Deadline
from docstokg.errors import WrongAnswer

ADDRESSES = {"jina": "https://api.jina.ai/v1", "cohere": "https://api.cohere.com/v2"}
MODELS = {"jina": "jina-reranker-v3", "cohere": "rerank-v3.5"}


# Scores are probabilities or logits; the difference of two of these is finite.
_MOST = 1e6


class _Row(BaseModel):
    index: int
    relevance_score: Annotated[float, Field(ge=-_MOST, le=_MOST, allow_inf_nan=False)]


class _Reply(BaseModel):
    results: list[_Row]


class HttpReranker:
    """A `Reranker` over HTTP."""

    def __init__(
        self, *, provider: str, base_url: str | None, model: str | None, api_key: Credential
    ) -> None:
        self._provider = provider
        self.model = model or MODELS[provider]
        url = (base_url or ADDRESSES[provider]).rstrip("/")
        path = "" if provider == "bedrock" else "/rerank"
        self._endpoint = Endpoint(url + path, api_key)

    def rank(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float, ...]:
        """Return a finite score per passage, in order; raise errors as `Endpoint.post`."""
        if not passages:
            return ()
        payload = self._payload(query, passages)
        return self._endpoint.post(
            payload, deadline, lambda answer: self._read(answer, len(passages))
        )

    def _payload(self, query: str, passages: Sequence[str]) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self.model,
            "query": query,
            "documents": list(passages),
            "top_n": len(passages),
        }
        return payload | ({"return_documents": False} if self._provider == "jina" else {})

    def _read(self, answer: Any, count: int) -> tuple[float, ...]:
        rows = checked(_Reply, answer, self.model).results
        scores = {row.index: row.relevance_score for row in rows}
        if len(rows) != count or sorted(scores) != list(range(count)):
            raise WrongAnswer(f"{self.model}: one score for each of {count} was expected")
        return tuple(scores[place] for place in range(count))
