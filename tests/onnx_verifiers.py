"""Writes folders with small real ONNX verifiers that compare word pieces, exported with onnx."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docstokg.adapters.onnx.wordpieces import cassette_model
from training.onnx_graphs import BOOL, FLOAT, INT64, Graph

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
    _write_model(folder / "model.onnx", labels, scale, tokens, length)
    return folder


def _write_model(
    path: Path, labels: Sequence[str], scale: float, tokens: bool, length: int | str
) -> None:
    g = Graph(path, {})
    first, second = g.value([1]), g.value([2])  # axes; the first is the number one, too
    same = g.Equal(g.Unsqueeze("input_ids", second), g.Unsqueeze("input_ids", first))
    premise = g.Mul(g.Sub(first, "token_type_ids"), "attention_mask")
    hits = g.And(same, g.Unsqueeze(g.Cast(premise, to=BOOL), first))
    found = g.ReduceMax(g.Cast(hits, to=FLOAT), second, keepdims=0)
    if tokens:
        score = g.Unsqueeze(g.Sub(found, g.value(0.5)), second)
    else:
        claim = g.Cast(g.Mul("token_type_ids", "attention_mask"), to=FLOAT)
        missing = g.Mul(claim, g.Sub(g.value(1.0), found))
        score = g.Sub(g.value(0.5), g.ReduceSum(missing, first, keepdims=1))
    signs = g.value([1 if label == "entailment" else -1 for label in labels])
    logits = g.Mul(score, g.Mul(g.Cast(signs, to=FLOAT), g.value(scale)))
    names = ("input_ids", "attention_mask", "token_type_ids")
    shape = ["batch", *([length] if tokens else []), len(labels)]
    g.write(
        path,
        {name: (INT64, ["batch", length]) for name in names},
        {"logits": (logits, FLOAT, shape)},
    )
