"""Rank labelled claims by `support`, and by the share of their stems in the sources (`line`).

    python -m benchmarks.claims FOLDER...

Each FOLDER contains `claims*.jsonl` (SPEC 6.3). Printed per folder and per `set` of its claims: AUC
with its bootstrap standard error, and mean support by label. The committed model is fitted on
attribution_dev, wice_dev and scifact_train; `python -m training.support` leaves each of them out.
"""

import argparse
from pathlib import Path

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder
from docstokg.domain.answer import support
from training.support import by_set, read_examples, table


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folders", type=Path, nargs="+")
    arguments.add_argument("--cache", type=Path, default=Path("~/.cache/docstokg").expanduser())
    options = arguments.parse_args()
    embedder = CachedEmbedder(OnnxMiniLm(), options.cache)
    for folder in options.folders:
        print(table(by_set(read_examples(folder, embedder), support.fitted())), flush=True)


if __name__ == "__main__":
    main()
