"""Writes folders with small real ONNX verifiers that compare word pieces, exported with onnx."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from docstokg.adapters.onnx.wordpieces import cassette_model

SURE = 8.0


def write_verifier(
    folder: Path,
    labels: Sequence[str],
    *,
    tokens: bool = False,
    card: dict[str, Any] | None = None,
    scale: float = SURE,
    length: int | str = "length",
) -> Path:
    """Write a model whose class i gets the logit of the role that `labels[i]` names.

    Roles: "entailment" grows with every piece of the claim (segment 1) that is in the premise and
    falls with each that is not; any other label gets the negative of it. `tokens`: one row per
    token instead of one per pair. The claim is the second text. `length`: a fixed one of the input.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(cassette_model() / "tokenizer.json", folder / "tokenizer.json")
    names = {str(place): label for place, label in enumerate(labels)}
    (folder / "config.json").write_text(json.dumps({"id2label": names}))
    if card is not None:
        (folder / "verifier.json").write_text(json.dumps(card))
    signs = np.array([scale if label == "entailment" else -scale for label in labels], np.float32)
    onnx.save(_model(signs, tokens, length), folder / "model.onnx")
    return folder


def _model(signs: np.ndarray, tokens: bool, length: int | str) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Unsqueeze", ["input_ids", "two"], ["rows"]),
        helper.make_node("Unsqueeze", ["input_ids", "one"], ["columns"]),
        helper.make_node("Equal", ["rows", "columns"], ["same"]),
        helper.make_node("Sub", ["unit", "token_type_ids"], ["premise_or_pad"]),
        helper.make_node("Mul", ["premise_or_pad", "attention_mask"], ["premise"]),
        helper.make_node("Cast", ["premise"], ["premise_bool"], to=TensorProto.BOOL),
        helper.make_node("Unsqueeze", ["premise_bool", "one"], ["premise_columns"]),
        helper.make_node("And", ["same", "premise_columns"], ["hits"]),
        helper.make_node("Cast", ["hits"], ["hits_float"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMax", ["hits_float", "two"], ["found"], keepdims=0),
    ]
    if tokens:
        nodes += [
            helper.make_node("Sub", ["found", "half"], ["score"]),
            helper.make_node("Unsqueeze", ["score", "two"], ["score_column"]),
        ]
    else:
        nodes += [
            helper.make_node("Mul", ["token_type_ids", "attention_mask"], ["claim_ints"]),
            helper.make_node("Cast", ["claim_ints"], ["claim"], to=TensorProto.FLOAT),
            helper.make_node("Sub", ["unit_float", "found"], ["missing"]),
            helper.make_node("Mul", ["claim", "missing"], ["missing_of_claim"]),
            helper.make_node("ReduceSum", ["missing_of_claim", "one"], ["missed"], keepdims=1),
            helper.make_node("Sub", ["half", "missed"], ["score_column"]),
        ]
    nodes.append(helper.make_node("Mul", ["score_column", "signs"], ["logits"]))
    constants = {
        "one": np.array([1], np.int64), "two": np.array([2], np.int64),
        "unit": np.array(1, np.int64), "unit_float": np.array(1, np.float32),
        "half": np.array(0.5, np.float32), "signs": signs,
    }  # fmt: skip
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", length])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    shape = ["batch", length, len(signs)] if tokens else ["batch", len(signs)]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "overlap", inputs, [output], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
