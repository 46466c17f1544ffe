"""A cross-encoder from an ONNX file of the operator's own; none ships with the product."""

import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docstokg.adapters.onnx.session import open_session, vendor_errors
from docstokg.errors import Misconfigured, Timeout, Unavailable, WrongAnswer

_MAX_TOKENS = 512
_BATCH, _THREADS = 8, 2


class OnnxReranker:
    """A `Reranker`; `path` is a sequence-classification model with `tokenizer.json` beside it."""

    def __init__(self, path: str | None) -> None:
        if not path:
            raise Misconfigured("set DOCSTOKG_RERANK_MODEL_PATH to an ONNX cross-encoder")
        self._path = Path(path).expanduser()

    @property
    def model(self) -> str:
        """Name the model by its file."""
        return self._path.stem

    def warm(self) -> None:
        """Load the model; `Misconfigured` says what is missing."""
        _ = self._parts

    def rank(self, query: str, passages: Sequence[str], timeout_s: float) -> tuple[float, ...]:
        """Return one logit per passage; `Timeout` is raised between batches of 8."""
        until = time.monotonic() + timeout_s
        scores: list[float] = []
        for start in range(0, len(passages), _BATCH):
            if time.monotonic() >= until:
                raise Timeout(f"{start} of {len(passages)} passages were scored in time")
            pairs = [(query, passage) for passage in passages[start : start + _BATCH]]
            logits = self._logits(pairs)
            if not np.isfinite(logits).all():
                raise WrongAnswer(f"{self.model} gave a score that is not finite")
            scores += [float(value) for value in logits]
        return tuple(scores)

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        for file in (self._path, self._path.with_name("tokenizer.json")):
            if not file.is_file():
                raise Misconfigured(f"{file} is missing (DOCSTOKG_RERANK_MODEL_PATH)")
        try:
            from tokenizers import Tokenizer
        except ImportError as missing:
            raise Misconfigured(f"a local reranker needs {missing.name}") from missing
        session = open_session(self._path, _THREADS, "set DOCSTOKG_RERANK_MODEL_PATH")
        tokenizer = Tokenizer.from_file(str(self._path.with_name("tokenizer.json")))
        tokenizer.enable_truncation(_MAX_TOKENS)
        tokenizer.enable_padding()
        return session, tokenizer

    def _logits(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Run one batch; of the usual inputs the model gets those it names."""
        session, tokenizer = self._parts
        encoded = tokenizer.encode_batch([tuple(pair) for pair in pairs])
        feed = {
            "input_ids": np.array([item.ids for item in encoded], dtype=np.int64),
            "attention_mask": np.array([item.attention_mask for item in encoded], dtype=np.int64),
            "token_type_ids": np.array([item.type_ids for item in encoded], dtype=np.int64),
        }
        names = {tensor.name for tensor in session.get_inputs()}
        inputs = {name: value for name, value in feed.items() if name in names}
        try:
            output = np.asarray(session.run(None, inputs)[0], dtype=np.float64)
            return output.reshape(len(pairs), -1)[:, -1]
        except vendor_errors() as broken:
            raise Unavailable(f"the reranker {self.model} failed: {broken}") from broken
