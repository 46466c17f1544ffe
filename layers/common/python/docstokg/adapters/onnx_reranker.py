"""A cross-encoder from an ONNX file of the operator's own; none ships with the product."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docstokg.adapters.onnx_pairs import open_pair_model, pair_logits
from docstokg.errors import Misconfigured, Timeout, WrongAnswer

_MAX_TOKENS = 512
_BATCH = 8


class OnnxReranker:
    """A `Reranker`; `path` is a sequence-classification model with `tokenizer.json` beside it."""

    def __init__(self, path: str | None, threads: int = 2) -> None:
        if not path:
            raise Misconfigured("set DOCSTOKG_RERANK_MODEL_PATH to an ONNX cross-encoder")
        self._path = Path(path).expanduser()
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @property
    def model(self) -> str:
        """Name the model by its file."""
        return self._path.stem

    def warm(self) -> None:
        """Load the model; `Misconfigured` says what is missing."""
        self._parts()

    def rank(self, query: str, passages: Sequence[str], timeout_s: float) -> tuple[float, ...]:
        """Return one logit per passage; `Timeout` is raised between batches of 8."""
        until = time.monotonic() + timeout_s
        session, tokenizer = self._parts()
        scores: list[float] = []
        for start in range(0, len(passages), _BATCH):
            if time.monotonic() >= until:
                raise Timeout(f"{start} of {len(passages)} passages were scored in time")
            pairs = [(query, passage) for passage in passages[start : start + _BATCH]]
            logits = pair_logits(session, tokenizer, pairs).reshape(len(pairs), -1)[:, -1]
            if not np.isfinite(logits).all():
                raise WrongAnswer(f"{self.model} gave a score that is not finite")
            scores += [float(value) for value in logits]
        return tuple(scores)

    def _parts(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> tuple[Any, Any]:
        return open_pair_model(
            self._path,
            needed=("tokenizer.json",),
            setting="DOCSTOKG_RERANK_MODEL_PATH",
            use="a local reranker",
            threads=self._threads,
            max_tokens=_MAX_TOKENS,
        )
