"""The oracle of the sparse encoder: the same two-layer SPLADE in plain NumPy, a text at a time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from docstokg.adapters.onnx.splade import (
    MAX_TOKENS,
    PASSAGE_TOKENS,
    QUERY_TOKENS,
    SMALLEST,
    token_name,
)
from docstokg.adapters.onnx.splade_graph import HEADS
from docstokg.adapters.onnx.wordpieces import cassette_model, open_tokenizer

Floats = NDArray[np.float32]


class NumpySplade:
    """Encodes with the installed weights."""

    def __init__(self) -> None:
        self._network = _Network(cassette_model())

    def encode(self, texts: Sequence[str]) -> tuple[dict[str, float], ...]:
        """Return the 128 heaviest tokens of each passage."""
        found = (self._network.activations(text) for text in texts)
        return tuple(self._network.heaviest(weights, PASSAGE_TOKENS) for weights in found)

    def encode_query(self, text: str) -> dict[str, float]:
        """Return the heaviest tokens of a question."""
        return self._network.heaviest(self._network.activations(text), QUERY_TOKENS)


class _Network:
    """BERT with two layers, two heads and a masked-language-model head, weights as arrays."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = open_tokenizer(folder / "tokenizer.json", MAX_TOKENS)
        stored = load_file(folder / "model.safetensors")
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


def _gelu(x: Floats) -> Floats:
    """Multiply x by the normal distribution; erf by Abramowitz and Stegun 7.1.26 (1.5e-7)."""
    z: Floats = np.abs(x) * np.float32(0.70710678)
    t: Floats = np.reciprocal(1 + np.float32(0.3275911) * z)
    series: Floats = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(coefficient)
    erf: Floats = np.sign(x) * (1 - series * t * np.exp(-z * z))
    return x * np.float32(0.5) * (1 + erf)
