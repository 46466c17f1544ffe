"""MiniLM for one text, as an ONNX graph over the installed weights that multiplies in 8 bits.

The installed model stores its weights in 8 bits and unpacks them when it is loaded: 48 products in
single precision, 42 MB of them and 47 MB of words. Here they stay 8 bits. What they are multiplied
with is written as the sum of two 8-bit numbers, the second being what the first leaves over: 16
bits, so that a vector is that of the installed model to about a ten-thousandth in its largest
component, where 8 bits alone would turn it by half a degree to nine.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstokg.adapters.onnx.reading import read_constants, read_inputs
from docstokg.adapters.onnx.writing import (
    FLOAT,
    INT8,
    INT32,
    INT64,
    MICROSOFT,
    UINT8,
    OnnxWriter,
)

WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the one file this graph is written for; any other model runs as it is."""

WIDTH, HEADS, LAYERS = 384, 12, 6
OPSET = 20
EPSILON = 1e-12
TOLERANCE = 2e-4
"""By how much a component may differ from the installed model's; 1.3e-4 was the most seen."""

_PARTS = (
    *("attention.self.query", "attention.self.key", "attention.self.value"),
    *("attention.output.dense", "intermediate.dense", "output.dense"),
)
_KINDS = {"float32": FLOAT, "int8": INT8}
Arrays = Mapping[str, NDArray[Any]]


class TextGraph(NamedTuple):
    """A model, and the arrays to hand to the runtime with it, by name."""

    model: bytes
    weights: dict[str, NDArray[Any]]


def write_graph(stored: bytes) -> TextGraph:
    """Write the model for the installed file's bytes.

    It takes `ids`, the pieces of one text, shape (1, pieces), and gives `hidden`, shape
    (1, pieces, 384): what the installed model calls `last_hidden_state`. KeyError: another model.
    """
    constants = read_constants(stored)
    multiplied = [
        taken[1] for taken in read_inputs(stored, "MatMul") if f"{taken[1]}_q" in constants
    ]
    names = [f"encoder.layer.{layer}.{part}" for layer in range(LAYERS) for part in _PARTS]
    if len(multiplied) != len(names):
        raise KeyError(f"{len(multiplied)} products, not {len(names)}")
    return _Network(constants, dict(zip(names, multiplied, strict=True))).graph()


def write_probe() -> bytes:
    """Write a model that multiplies `a` (1, 4) with `b` (4, 16), to see whether that is exact.

    A processor without the instructions for it adds pairs of them in 16 bits, which overflow.
    """
    writer = OnnxWriter("probe", OPSET)
    both = (writer.take("a", UINT8, [1, 4]), writer.take("b", INT8, [4, 16]))
    writer.node("MatMulInteger", both, "product")
    writer.give("product", INT32, [1, 16])
    return writer.model()


class _Network:
    def __init__(self, constants: Arrays, stored_as: Mapping[str, str]) -> None:
        self._constants, self._stored_as = constants, stored_as
        self._writer = OnnxWriter("minilm", OPSET)
        self._arrays: dict[str, NDArray[Any]] = {}

    def graph(self) -> TextGraph:
        x = self._embedded(self._writer.take("ids", INT64, [1, "pieces"]))
        for layer in range(LAYERS):
            x = self._layer(f"encoder.layer.{layer}", x)
        self._writer.node("Identity", [x], "hidden")
        self._writer.give("hidden", FLOAT, [1, "pieces", WIDTH])
        return TextGraph(self._writer.model(), self._arrays)

    def _embedded(self, ids: str) -> str:
        node = self._writer.node
        levels, scales = self._quantized("embeddings.word_embeddings.weight")
        rows = node("Gather", [self._give("words.levels", levels), ids], "word.levels")
        scale = node("Gather", [self._give("words.scales", scales), ids], "word.scale")
        word = node("Mul", [node("Cast", [rows], "word.real", to=FLOAT), scale], "word")
        levels, scales = self._quantized("embeddings.position_embeddings.weight")
        kind = self._constants["inner.embeddings.token_type_embeddings.weight"][0]
        places = self._give("places_of", levels * scales + kind)
        until = node("Shape", [ids], "pieces", start=1, end=2)
        near = node("Slice", [places, self._writer.integers("begin", [0]), until], "places")
        return self._normal("embeddings.LayerNorm", node("Add", [word, near], "word.placed"))

    def _layer(self, name: str, x: str) -> str:
        node = self._writer.node
        parts = [f"{name}.{part}" for part in _PARTS]
        own = [f"{name}.query", f"{name}.key", f"{name}.value"]
        node("Split", [self._linear(parts[:3], x)], own, axis=-1, num_outputs=3)
        mixed = node("MultiHeadAttention", own, f"{name}.mixed", MICROSOFT, num_heads=HEADS)
        attended = node("Add", [x, self._linear(parts[3:4], mixed)], f"{name}.attended")
        x = self._normal(f"{name}.attention.output.LayerNorm", attended)
        wide = node("Gelu", [self._linear(parts[4:5], x)], f"{name}.bent")
        total = node("Add", [x, self._linear(parts[5:], wide)], f"{name}.total")
        return self._normal(f"{name}.output.LayerNorm", total)

    def _linear(self, parts: list[str], x: str) -> str:
        """Multiply `x` with the matrices of `parts`, side by side, and add their biases."""
        name, node = parts[0], self._writer.node
        read = [self._quantized(self._stored_as[part], "") for part in parts]
        levels = self._give(f"{name}.levels", np.concatenate([own for own, _ in read], axis=1))
        column = np.concatenate([own for _, own in read], axis=1)[0]
        scales = self._give(f"{name}.scales", column)
        biases = [self._constants[f"inner.{part}.bias"] for part in parts]
        bias = self._give(f"{name}.bias", np.concatenate(biases))
        self._in_two(x)
        first = [f"{x}.levels", levels, f"{x}.scale", scales, f"{x}.zero", "", bias]
        second = [f"{x}.rest.levels", levels, f"{x}.rest.scale", scales, f"{x}.rest.zero"]
        kind = "MatMulIntegerToFloat"
        sums = [node(kind, first, f"{name}.first", MICROSOFT)]
        sums.append(node(kind, second, f"{name}.second", MICROSOFT))
        return node("Add", sums, f"{name}.sum")

    def _in_two(self, x: str) -> None:
        """Write `x` as two 8-bit numbers, the second what the first leaves over."""
        node = self._writer.node
        first = [f"{x}.levels", f"{x}.scale", f"{x}.zero"]
        node("DynamicQuantizeLinear", [x], first)
        rest = node("Sub", [x, node("DequantizeLinear", first, f"{x}.near")], f"{x}.rest")
        second = [f"{rest}.levels", f"{rest}.scale", f"{rest}.zero"]
        node("DynamicQuantizeLinear", [rest], second)

    def _quantized(self, name: str, of: str = "inner.") -> tuple[NDArray[Any], NDArray[Any]]:
        return self._constants[f"{of}{name}_q"], self._constants[f"{of}{name}_scale"]

    def _normal(self, name: str, x: str) -> str:
        gamma = self._give(f"{name}.gamma", self._constants[f"inner.{name}.weight"])
        beta = self._give(f"{name}.beta", self._constants[f"inner.{name}.bias"])
        return self._writer.node(
            "LayerNormalization", [x, gamma, beta], f"{name}.normal", epsilon=EPSILON
        )

    def _give(self, name: str, values: NDArray[Any]) -> str:
        array = np.ascontiguousarray(values)
        self._arrays[name] = array
        return self._writer.weight(name, _KINDS[array.dtype.name], array.shape)
