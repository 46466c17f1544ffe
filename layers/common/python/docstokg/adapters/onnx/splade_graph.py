"""The SPLADE network as an ONNX graph over the installed weights, written here instead of exported.

BERT with two layers and two heads, then a masked-language-model head. Its logit of a word is
x . v + b, and the 30,522 products of every piece are nearly all the work: they are computed in
8 bits first, in slices that stay in the processor's cache, and only the CANDIDATES best words of
a text again in full precision. So the weights that come out are exact.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstokg.adapters.onnx.writing import BOOL, FLOAT, INT8, INT64, OnnxWriter

GRAPH_SHA256 = "af4c6f8c0019dd67a6aa496c2144a3b329a13d4878ddba2b41816777ea652f06"
"""Of the model that `write_graph` makes of the installed weights; a test compares."""

CANDIDATES = 320
HEADS = 2
LAYERS = 2
SLICES = 32
OPSET = 20
EPSILON = 1e-12
NEVER = -1e9
_KINDS = {"float32": FLOAT, "int8": INT8}

Weights = Mapping[str, NDArray[Any]]


class SpladeGraph(NamedTuple):
    """A model of 22 KB, and the arrays to hand to the runtime with it, by name."""

    model: bytes
    weights: dict[str, NDArray[Any]]


def write_graph(stored: Weights) -> SpladeGraph:
    """Write the model for `stored`, the arrays of model.safetensors.

    It takes `ids` and `kept` (what is no padding), both (texts, pieces), and gives per text its
    candidates: `words` (their rows in the vocabulary), `rough` and `exact` logits, each
    (texts, CANDIDATES), the logit being the highest of any piece; and `states` (texts, pieces,
    width), whose product with the vocabulary is every logit.
    """
    return _Network({name.removeprefix("bert."): array for name, array in stored.items()}).graph()


class _Network:
    def __init__(self, stored: Weights) -> None:
        self._stored = stored
        self._words = stored["embeddings.word_embeddings.weight"]
        self._width = self._words.shape[1]
        self._writer = OnnxWriter("splade", OPSET)
        self._arrays: dict[str, NDArray[Any]] = {}

    def graph(self) -> SpladeGraph:
        node, integers = self._writer.node, self._writer.integers
        ids = self._writer.take("ids", INT64, ["texts", "pieces"])
        mask = self._writer.take("kept", BOOL, ["texts", "pieces"])
        self._give("never", np.asarray(NEVER, dtype=np.float32))
        self._give("scale", np.asarray((self._width / HEADS) ** -0.5, dtype=np.float32))
        words = self._give("words_of", self._words)
        keys = node("Unsqueeze", [mask, integers("key_axes", [1, 2])], "kept_keys")
        x = self._embedded(ids, words)
        for layer in range(LAYERS):
            x = self._layer(f"encoder.layer.{layer}", x, keys)
        head = node("Gelu", [self._linear("cls.predictions.transform.dense", x)], "head.bent")
        head = self._normal("cls.predictions.transform.LayerNorm", head)
        # A padded piece repeats the first one: so it is never the only one with a high logit.
        first = node(
            "Slice",
            [head, integers("from_0", [0]), integers("to_1", [1]), integers("axis_1", [1])],
            "head.first",
        )
        pieces = node("Unsqueeze", [mask, integers("last_axis", [2])], "kept_pieces")
        states = node("Where", [pieces, head, first], "states")
        bias = self._give("bias", self._stored["cls.predictions.bias"])
        node("Add", [self._rough(states), bias], "rough_logits")
        node("TopK", ["rough_logits", integers("count", [CANDIDATES])], ["rough", "words"])
        columns = node("Gather", [words, "words"], "candidates")
        columns = node("Transpose", [columns], "candidates.turned", perm=[0, 2, 1])
        logits = node("MatMul", [states, columns], "candidates.products")
        logits = node("ReduceMax", [logits, "axis_1"], "candidates.highest", keepdims=0)
        node("Add", [logits, node("Gather", [bias, "words"], "candidates.bias")], "exact")
        for name, kind in (("words", INT64), ("rough", FLOAT), ("exact", FLOAT)):
            self._writer.give(name, kind, ["texts", CANDIDATES])
        self._writer.give("states", FLOAT, ["texts", "pieces", self._width])
        return SpladeGraph(self._writer.model(), self._arrays)

    def _embedded(self, ids: str, words: str) -> str:
        node = self._writer.node
        places = self._give(
            "places_of",
            self._stored["embeddings.position_embeddings.weight"]
            + self._stored["embeddings.token_type_embeddings.weight"][0],
        )
        until = node("Shape", [ids], "pieces", start=1, end=2)
        near = node("Slice", [places, self._writer.integers("begin", [0]), until], "places")
        total = node("Add", [node("Gather", [words, ids], "word"), near], "word.placed")
        return self._normal("embeddings.LayerNorm", total)

    def _layer(self, name: str, x: str, keys: str) -> str:
        node = self._writer.node
        query = self._head(f"{name}.attention.self.query", x, [0, 2, 1, 3])
        key = self._head(f"{name}.attention.self.key", x, [0, 2, 3, 1])
        value = self._head(f"{name}.attention.self.value", x, [0, 2, 1, 3])
        scores = node("MatMul", [query, key], f"{name}.products")
        scores = node("Mul", [scores, "scale"], f"{name}.scaled")
        scores = node("Where", [keys, scores, "never"], f"{name}.scores")
        shares = node("Softmax", [scores], f"{name}.shares", axis=-1)
        mixed = node("MatMul", [shares, value], f"{name}.mixed")
        mixed = node("Transpose", [mixed], f"{name}.turned", perm=[0, 2, 1, 3])
        whole = self._writer.integers(f"{name}.whole", [0, 0, self._width])
        mixed = node("Reshape", [mixed, whole], f"{name}.joined")
        attended = self._linear(f"{name}.attention.output.dense", mixed)
        x = self._normal(
            f"{name}.attention.output.LayerNorm", node("Add", [x, attended], f"{name}.attended")
        )
        wide = node("Gelu", [self._linear(f"{name}.intermediate.dense", x)], f"{name}.bent")
        narrow = self._linear(f"{name}.output.dense", wide)
        return self._normal(f"{name}.output.LayerNorm", node("Add", [x, narrow], f"{name}.sum"))

    def _head(self, name: str, x: str, order: list[int]) -> str:
        split = self._writer.integers(f"{name}.split", [0, 0, HEADS, self._width // HEADS])
        parted = self._writer.node("Reshape", [self._linear(name, x), split], f"{name}.parted")
        return self._writer.node("Transpose", [parted], f"{name}.heads", perm=order)

    def _rough(self, states: str) -> str:
        """Multiply with the vocabulary in 8 bits, one scale a word; highest of any piece."""
        node = self._writer.node
        scales = np.abs(self._words).max(axis=1) / np.float32(127)
        levels = np.rint(self._words / scales[:, None]).astype(np.int8)
        node("DynamicQuantizeLinear", [states], ["state.levels", "state.scale", "state.zero"])
        highest = []
        borders = [len(levels) * i // SLICES for i in range(SLICES + 1)]
        for i, (begin, end) in enumerate(pairwise(borders)):
            part = self._give(f"words.{i}", levels[begin:end].T)
            product = node("MatMulInteger", ["state.levels", part, "state.zero"], f"rough.{i}")
            highest.append(node("ReduceMax", [product, "axis_1"], f"highest.{i}", keepdims=0))
        joined = node("Concat", highest, "highest", axis=1)
        joined = node("Cast", [joined], "highest.real", to=FLOAT)
        joined = node("Mul", [joined, self._give("words.scales", scales)], "highest.scaled")
        return node("Mul", [joined, "state.scale"], "highest.of_states")

    def _linear(self, name: str, x: str) -> str:
        weight = self._give(f"{name}.weight", self._stored[f"{name}.weight"].T)
        product = self._writer.node("MatMul", [x, weight], f"{name}.product")
        bias = self._give(f"{name}.bias", self._stored[f"{name}.bias"])
        return self._writer.node("Add", [product, bias], f"{name}.sum")

    def _normal(self, name: str, x: str) -> str:
        gamma = self._give(f"{name}.gamma", self._stored[f"{name}.gamma"])
        beta = self._give(f"{name}.beta", self._stored[f"{name}.beta"])
        return self._writer.node(
            "LayerNormalization", [x, gamma, beta], f"{name}.normal", epsilon=EPSILON
        )

    def _give(self, name: str, values: NDArray[Any]) -> str:
        array = np.ascontiguousarray(values).reshape(values.shape)
        self._arrays[name] = array
        return self._writer.weight(name, _KINDS[array.dtype.name], array.shape)
