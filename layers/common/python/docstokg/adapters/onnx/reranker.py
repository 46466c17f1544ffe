"""Local cross-encoder."""

from collections.abc import Sequence
from itertools import batched
from pathlib import Path

import numpy as np

from docstokg.adapters.onnx.cross_encoder import CrossEncoder
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Timeout, WrongAnswer

_SETTING = "DOCSTOKG_RERANK_MODEL_PATH"
_MAX_TOKENS, _BATCH = 512, 8


class OnnxReranker:
    """A `Reranker`; `path` is a sequence-classification model next to `tokenizer.json`."""

    def __init__(self, path: str | None) -> None:
        if not path:
            raise Misconfigured(f"set {_SETTING} to an ONNX cross-encoder")
        file = Path(path).expanduser()
        self.model = file.stem
        self._encoder = CrossEncoder(file, "reranker", _SETTING, _MAX_TOKENS)

    def warm(self) -> None:
        """Load the model; raise `Misconfigured` with the missing part."""
        self._encoder.warm()

    def rank(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float, ...]:
        """Return a logit per passage.

        Raise `Timeout` between batches of 8, `WrongAnswer` if not finite.
        """
        scores: list[float] = []
        for batch in batched(passages, _BATCH):
            if deadline.is_over():
                raise Timeout(f"{len(scores)} of {len(passages)} passages were scored in time")
            pairs = [(query, passage) for passage in batch]
            encoded = self._encoder.tokenizer.encode_batch(pairs)
            logits = self._encoder.outputs(encoded).reshape(len(pairs), -1)[:, -1]
            if not np.isfinite(logits).all():
                raise WrongAnswer(f"{self.model} gave a score that is not finite")
            scores += [float(value) for value in logits]
        return tuple(scores)
