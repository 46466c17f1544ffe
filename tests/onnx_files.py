"""Writes tiny real ONNX models, so that adapters meet the true runtime without a download."""

from collections.abc import Sequence
from pathlib import Path

from training.onnx_graphs import FLOAT, INT64, Graph


def write_model(path: Path, columns: Sequence[str], takes: int = INT64) -> Path:
    """Write a model whose logits are made of s = the sum of `input_ids` of a row.

    `columns`: of `plus` (s), `minus` (-s), `zero` (0), one per class.
    `takes`: the type of `input_ids`; with FLOAT every run fails.
    """
    g = Graph(path, {})
    total = g.ReduceSum(g.Cast("input_ids", to=FLOAT), g.value([1]), keepdims=1)
    values = {"plus": total, "minus": g.Neg(total), "zero": g.Sub(total, total)}
    logits = g.Concat(*(values[column] for column in columns), axis=1)
    shape = ["batch", "classes"]
    g.write(path, {"input_ids": (takes, ["batch", "length"])}, {"logits": (logits, FLOAT, shape)})
    return path
