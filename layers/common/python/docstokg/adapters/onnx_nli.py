"""Entailment from an ONNX file of the operator's own, as a second opinion on verdicts."""

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from docstokg.adapters.onnx_pairs import open_pair_model, pair_logits
from docstokg.errors import Misconfigured, Timeout, WrongAnswer

_MAX_TOKENS = 256
_BATCH = 4
_KINDS = ("entailment", "contradiction")


class OnnxNli:
    """An `Entailment`: a three-way classifier with `tokenizer.json` and `config.json` beside it.

    Which column means what is read from `id2label` of the config, never assumed.
    """

    def __init__(self, path: str, threads: int = 2) -> None:
        self._path = Path(path).expanduser()
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any, tuple[int, int]] | None = None

    def judge(
        self, pairs: Sequence[tuple[str, str]], timeout_s: float
    ) -> tuple[tuple[float, float], ...]:
        """Return (entailment, contradiction) per (premise, claim), each in [0, 1].

        Softmax over the classes. `Timeout` is raised between batches of 4.
        """
        until = time.monotonic() + timeout_s
        session, tokenizer, columns = self._parts()
        judged: list[tuple[float, float]] = []
        for start in range(0, len(pairs), _BATCH):
            if time.monotonic() >= until:
                raise Timeout(f"{start} of {len(pairs)} pairs were judged in time")
            batch = pairs[start : start + _BATCH]
            logits = pair_logits(session, tokenizer, batch)
            if logits.ndim != 2 or logits.shape[0] != len(batch) or logits.shape[1] <= max(columns):
                raise WrongAnswer(f"{self._path.name} does not give one row of classes per pair")
            if not np.isfinite(logits).all():
                raise WrongAnswer(f"{self._path.name} gave a score that is not finite")
            shares = np.exp(logits - logits.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            judged += [(float(row[columns[0]]), float(row[columns[1]])) for row in shares]
        return tuple(judged)

    def _parts(self) -> tuple[Any, Any, tuple[int, int]]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> tuple[Any, Any, tuple[int, int]]:
        session, tokenizer = open_pair_model(
            self._path,
            needed=("tokenizer.json", "config.json"),
            setting="DOCSTOKG_NLI_MODEL_PATH",
            use="a local NLI model",
            threads=self._threads,
            max_tokens=_MAX_TOKENS,
        )
        return session, tokenizer, _columns(self._path.with_name("config.json"))


def _columns(config: Path) -> tuple[int, int]:
    """Read which classes mean entailment and contradiction."""
    try:
        labels = json.loads(config.read_text("utf-8"))["id2label"]
        named = {str(label).casefold(): int(place) for place, label in labels.items()}
        return named[_KINDS[0]], named[_KINDS[1]]
    except (ValueError, KeyError, AttributeError, TypeError) as wrong:
        raise Misconfigured(f"{config}: id2label must name {' and '.join(_KINDS)}") from wrong
