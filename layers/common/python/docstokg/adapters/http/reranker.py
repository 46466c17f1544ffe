"""Cross-encoder scores from Jina or from any Cohere-style rerank address."""

import math
from collections.abc import Sequence
from typing import Any

from docstokg.adapters.http.json_post import Endpoint, first_that_answers
from docstokg.errors import Misconfigured, WrongAnswer

ADDRESSES = {"jina": "https://api.jina.ai/v1", "cohere": "https://api.cohere.com/v2"}
MODELS = {"jina": "jina-reranker-v3", "cohere": "rerank-v3.5"}


class HttpReranker:
    """A `Reranker` over HTTP; its answers are checked before they order anything."""

    def __init__(
        self, *, provider: str, base_url: str | None, model: str | None, api_key: str | None
    ) -> None:
        if provider not in ADDRESSES:
            raise Misconfigured(f"there is no rerank provider {provider!r}")
        self._provider = provider
        self._model = model or MODELS[provider]
        url = (base_url or ADDRESSES[provider]).rstrip("/")
        self._endpoint = Endpoint(f"{url}/rerank", api_key)

    @property
    def model(self) -> str:
        """Name the model."""
        return self._model

    def rank(self, query: str, passages: Sequence[str], timeout_s: float) -> tuple[float, ...]:
        """Return one finite score per passage, in the passages' order."""
        if not passages:
            return ()
        payload: dict[str, Any] = {
            "model": self._model,
            "query": query,
            "documents": list(passages),
            "top_n": len(passages),
        }
        if self._provider == "jina":
            payload["return_documents"] = False
        return first_that_answers(
            [self._endpoint], payload, lambda answer: self._read(answer, len(passages)), timeout_s
        )

    def _read(self, answer: Any, count: int) -> tuple[float, ...]:
        rows = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or len(rows) != count:
            raise WrongAnswer(f"{self._model}: {count} results were expected")
        scores: dict[int, float] = {}
        for row in rows:
            place = row.get("index") if isinstance(row, dict) else None
            score = row.get("relevance_score") if isinstance(row, dict) else None
            if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < count:
                raise WrongAnswer(f"{self._model}: a result names no passage")
            if not isinstance(score, int | float) or isinstance(score, bool):
                raise WrongAnswer(f"{self._model}: a score is no number")
            if not math.isfinite(score):
                raise WrongAnswer(f"{self._model}: a score is not finite")
            scores[place] = float(score)
        if len(scores) != count:
            raise WrongAnswer(f"{self._model}: a passage was scored twice")
        return tuple(scores[place] for place in range(count))
