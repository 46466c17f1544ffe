"""How often answers are right, by what confidence is made of: the tables A and B.

    python -m benchmarks.fit_confidence REPORT.json... [--write]

Each REPORT is what `docstokg eval FOLDER --answers --json REPORT.json` wrote. A: rate of right
answers over the mean score of the passages given; B: over cosine(question, answer). Each in eight
bins of like size, made rising by pooling neighbours, then in parts of the highest rate. Prints
the reliability table of the confidence that was reported.
"""

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from docstokg.domain.vectors import unpack
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.evaluation.answers import without_markers

TABLE = Path("layers/common/python/docstokg/domain/answer/confidence_table.json")
BINS = 8
STEPS = (0.0, 0.3, 0.4, 0.46, 0.51, 0.55, 0.6, 0.65, 0.7, 0.8, 1.01)


def rising(values: list[float], right: list[bool]) -> list[list[float]]:
    """Give points (mean value, rate) of bins, neighbours that fall pooled (PAV)."""
    x, y = np.array(values), np.array(right, dtype=float)
    pools: list[list[float]] = []
    for part in np.array_split(np.argsort(x, kind="stable"), BINS):
        pools.append([float(x[part].mean()), float(y[part].mean()), float(len(part))])
        while len(pools) > 1 and pools[-2][1] >= pools[-1][1]:
            (a, rate_a, n_a), (b, rate_b, n_b) = pools[-2:]
            n = n_a + n_b
            pools[-2:] = [[(a * n_a + b * n_b) / n, (rate_a * n_a + rate_b * n_b) / n, n]]
    best = max(rate for _, rate, _ in pools) or 1.0
    points = [[0.0, 0.0], *([round(at, 3), round(rate / best, 3)] for at, rate, _ in pools)]
    return [point for i, point in enumerate(points) if not i or point[0] > points[i - 1][0]]


def main() -> None:
    """Fit, print, and with --write commit the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("reports", type=Path, nargs="+")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    embedder = Wiring(Settings.from_environment({})).embedder()
    assert embedder is not None
    rows: list[dict[str, Any]] = []
    for report in arguments.reports:
        read = json.loads(report.read_text("utf-8"))["runs"][0]["questions"]
        own = [row for row in read if not row["abstained"] and row["mean_score"] is not None]
        print(f"{report}: {len(own)} answers, right {np.mean([row['right'] for row in own]):.3f}")
        rows += own
    right = [row["right"] for row in rows]
    asked = embedder.embed([row["question"] for row in rows], None)
    said = embedder.embed([without_markers(row["answer"]) for row in rows], None)
    near = [float(unpack(a) @ unpack(b)) for a, b in zip(asked, said, strict=True)]
    made = {
        "score": rising([row["mean_score"] for row in rows], right),
        "similarity": rising(near, right),
    }
    print(json.dumps(made))
    for low, high in pairwise(STEPS):
        inside = [row["right"] for row in rows if low <= row["confidence"] < high]
        if inside:
            print(f"confidence {low:.2f} to {high:.2f}: {len(inside)}, right {np.mean(inside):.2f}")
    if arguments.write:
        TABLE.write_text(json.dumps(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
