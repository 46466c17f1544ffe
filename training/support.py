"""Fit the model of docstokg.domain.answer.support and print its ranking of left-out sets.

Fitted on attribution_dev, wice_dev (supported against the rest) and scifact_train (supporting
against other abstracts); faithbench_dev and expertqa_val are only measured. Every set and label
weighs the same; the intercept is the mean of the sets'.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder
from docstokg.domain.answer import support
from docstokg.domain.answer.support import Features, Model
from docstokg.ports import Embedder
from docstokg_local.evaluation.claims import LabelledClaim, Measured, examine, measure, read_claims
from training.answers import regression

FITTED = ("attribution_dev", "wice_dev", "scifact_train")
MEASURED = ("faithbench_dev", "expertqa_val")
# Of standardised features; 10 to 1000 change left-out AUCs by at most .02 (half the error).
RIDGE = 100.0

OUTPUT = Path(support.__file__).with_name("support_weights.json")
LICENCES = (
    "AttributionBench as published by its sets; WiCE ODC-BY; SciFact claims CC BY 4.0, abstracts "
    "ODC-By. Weights only; no text is included."
)


# Per set, the figures of `line`, `no vectors` and `support`; empty if all labels are equal.
Figures = dict[str, dict[str, Measured]]


class Example(NamedTuple):
    """A labelled claim of a folder with its features; `title`: folder and set."""

    folder: str
    title: str
    features: Features
    supported: bool


def main() -> None:
    """Fit, write the weights with their card and print them."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, default=Path("../shared/data"))
    arguments.add_argument("--cache", type=Path, default=Path("~/.cache/docstokg").expanduser())
    arguments.add_argument("--output", type=Path, default=OUTPUT)
    options = arguments.parse_args()
    embedder = CachedEmbedder(OnnxMiniLm(), options.cache)
    examples = [
        example
        for folder in (*FITTED, *MEASURED)
        for example in read_examples(options.data / folder, embedder)
    ]
    text = weights_file(examples, left_out(examples))
    options.output.write_text(text, "utf-8")
    print(text)


def read_examples(folder: Path, embedder: Embedder | None) -> list[Example]:
    """Return a folder's claims with features, without those that have no source sentence.

    A folder without `claims*.jsonl` is read as SciFact. Raises `LoadError` for invalid claims.
    """
    claims = read_claims(folder) if any(folder.glob("claims*.jsonl")) else scifact(folder)
    names = {claim.set for claim in claims}
    titles = {name: f"{folder.name}: {name}" if len(names) > 1 else folder.name for name in names}
    return [
        Example(folder.name, titles[claim.set], values, claim.supported)
        for claim, values in zip(claims, examine(claims, embedder), strict=True)
        if values is not None
    ]


def scifact(folder: Path) -> list[LabelledClaim]:
    """Return a claim per SciFact claim and gold or labelled abstract; true if it is SUPPORT."""
    texts = {row["doc_id"]: row["text"] for row in _lines(folder / "passages.jsonl")}
    claims = []
    for row in _lines(folder / "questions.jsonl"):
        labels = {evidence["doc_id"]: evidence["label"] for evidence in row["evidence"]}
        for doc_id in dict.fromkeys([*row["gold"], *labels]):
            supported = labels.get(doc_id) == "SUPPORT"
            identity = (f"{row['id']}-{doc_id}", folder.name, row["question"])
            claims.append(LabelledClaim(*identity, (texts[doc_id],), supported))
    return claims


def fit(examples: Sequence[Example]) -> Model:
    """Fit a logistic regression with a ridge and an intercept per set, by Newton's method."""
    values = np.array([example.features for example in examples], dtype=float)
    titles = sorted({example.title for example in examples})
    own_set = np.array(
        [[example.title == title for title in titles] for example in examples], dtype=float
    )
    supported = np.array([example.supported for example in examples], dtype=float)
    slopes, bias = regression(values, supported, _importance(examples), RIDGE, own_set)
    return Model(
        bias=_rounded(bias),
        weights=dict(zip(Features._fields, map(_rounded, slopes.tolist()), strict=True)),
        mean_cosine=_rounded(float(values.mean(0)[Features._fields.index("cosine")])),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def _importance(examples: Sequence[Example]) -> npt.NDArray[np.float64]:
    keys = [(example.folder, example.supported) for example in examples]
    counts = {key: keys.count(key) for key in set(keys)}
    return np.array([len(keys) / len(counts) / counts[key] for key in keys])


def left_out(examples: Sequence[Example]) -> Figures:
    """Return `by_set` of each folder, with a model fitted on FITTED without it."""
    figures: Figures = {}
    for folder in dict.fromkeys(example.folder for example in examples):
        model = fit(
            [
                example
                for example in examples
                if example.folder in FITTED and example.folder != folder
            ]
        )
        figures |= by_set([example for example in examples if example.folder == folder], model)
    return figures


def by_set(examples: Sequence[Example], model: Model) -> Figures:
    """Measure `line`, `no vectors` and `support` per folder and set; {} if labels are equal."""
    figures: Figures = {}
    for title in dict.fromkeys(
        title for example in examples for title in (example.folder, example.title)
    ):
        subset = [example for example in examples if title in (example.folder, example.title)]
        values = [example.features for example in subset]
        scores = {
            "line": [features.share for features in values],
            "no vectors": [
                support.score(features._replace(cosine=None), model) for features in values
            ],
            "support": [support.score(features, model) for features in values],
        }
        labels = [example.supported for example in subset]
        measured = {key: measure(own_scores, labels) for key, own_scores in scores.items()}
        figures[title] = {key: measure for key, measure in measured.items() if measure is not None}
    return figures


def weights_file(examples: Sequence[Example], figures: Figures) -> str:
    """Fit on FITTED and return the weights file, with `figures` in its card."""
    chosen = [example for example in examples if example.folder in FITTED]
    card = {
        "made_by": "python -m training.support",
        "fitted_on": {name: sum(example.folder == name for example in chosen) for name in FITTED},
        "licences": LICENCES,
        "auc_left_out": {
            title: {
                key: f"{measure.auc:.3f} \u00b1 {measure.error:.3f}"
                for key, measure in measures.items()
            }
            for title, measures in figures.items()
        },
    }
    model = fit(chosen).model_copy(update={"card": card})
    return model.model_dump_json(indent=1) + "\n"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    main()
