"""Text Embeddings Inference verifier."""

from collections.abc import Iterator, Sequence
from itertools import batched, islice
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from docstokg.adapters.exchange import host_of
from docstokg.adapters.http.json_post import Endpoint, checked
from docstokg.domain.deadline import Deadline
from docstokg.errors import Timeout, WrongAnswer
from docstokg.ports import Opinion, Pair, strongest

MOST_BYTES = 1 << 20
# Inputs per call: the server's default limit (`--max-client-batch-size`).
BATCH = 32
CONTRADICTION = "contradiction"


class _Class(BaseModel):
    label: str
    score: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


_ROWS = TypeAdapter(list[list[_Class]])


class HttpVerifier:
    """A `Verifier`; `label` is the class of supported claims, in any case."""

    def __init__(self, url: str, label: str, threshold: float, api_key: str | None = None) -> None:
        self.name, self.threshold = f"http:{host_of(url)}", threshold
        self._label = label.casefold()
        self._endpoint = Endpoint(url, api_key, max_bytes=MOST_BYTES)

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        """Return one opinion per pair; raise errors as `Endpoint.post`, `WrongAnswer`: no label."""
        opinions: list[Opinion] = []
        inputs = [[source, pair.claim] for pair in pairs for source in pair.sources]
        for batch in batched(inputs, BATCH):
            if deadline.is_over():
                raise Timeout(
                    f"{self.name}: {len(opinions)} of {len(inputs)} inputs were read in time"
                )
            opinions += self._predicted(batch, deadline)
        rows: Iterator[Opinion] = iter(opinions)
        return [strongest(list(islice(rows, len(pair.sources)))) for pair in pairs]

    def _predicted(self, batch: Sequence[list[str]], deadline: Deadline) -> list[Opinion]:
        payload = {"inputs": batch, "truncate": True}
        return self._endpoint.post(payload, deadline, lambda answer: self._read(answer, len(batch)))

    def _read(self, answer: Any, count: int) -> list[Opinion]:
        rows = checked(_ROWS, answer, self.name)
        if len(rows) != count:
            raise WrongAnswer(f"{self.name}: {len(rows)} predictions for {count} inputs")
        scores = [
            {prediction.label.casefold(): prediction.score for prediction in row} for row in rows
        ]
        if any(self._label not in row for row in scores):
            raise WrongAnswer(f"{self.name}: no class is named {self._label!r}")
        return [Opinion(row[self._label], row.get(CONTRADICTION)) for row in scores]
