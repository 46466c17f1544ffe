"""What loading a million documents in the cloud would take, on paper: time, money, what limits it.

The stages are those of `docstokg load`; each figure is measured on a laptop's two cores or is an
assumption that has its option. Lambda's arm64 cores are taken to be as fast as those.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cloud_costs import CALL, COMPUTE, Price
from docstokg.loading.run.rows import AHEAD

LAMBDA_S = 900
BOOK_MB = 3008
RESOLVE_GETS = 4
"""Of a shard: its rows twice, which names were found in it, and which models read it."""
TRANSITIONS = 9
"""Of a batch: two where it is read, five where encoders and names run, two where it is written."""
CORE_MB = 1769
HOUR = 3600
MILLION = 1_000_000
PUT = Price("S3, puts", 5.0, "million", "aws.amazon.com/s3/pricing")
GET = Price("S3, gets", 0.40, "million", "aws.amazon.com/s3/pricing")
STANDARD = Price(
    "Step Functions Standard", 25.0, "million", "aws.amazon.com/step-functions/pricing"
)


@dataclass(frozen=True, slots=True)
class Load:
    """A load, and what its parts were measured to take.

    CPU seconds of one core: `read` a document, `encode` and `names` a chunk. Rates a second:
    `resolve` chunks that one task stages and whose names it decides, `write` chunks of one writer
    into both stores. `name_kb`: what a name that nobody named before takes of the memory of
    `write`, which opens all decisions, or of `resolve`, whichever is more.
    `batch`: documents of one child of the map. `get`: seconds until the bucket gives an object.
    """

    documents: int = 1_000_000
    chunks_each: int = 5
    mentions_each: float = 11.8
    read: float = 0.05
    encode: float = 0.12
    names: float = 0.011
    resolve: float = 2_950.0
    name_kb: float = 1.6
    write: float = 192.0
    writers: int = 1
    parallel: int = 50
    batch: int = 40
    get: float = 0.025

    @property
    def chunks(self) -> int:
        """Passages in all."""
        return self.documents * self.chunks_each

    @property
    def batches(self) -> int:
        """Children of the map: each reads, encodes and names the documents of one batch."""
        return math.ceil(self.documents / self.batch)


@dataclass(frozen=True, slots=True)
class Stage:
    """One row: tasks, core seconds in all, wall seconds, USD."""

    name: str
    tasks: int
    core_s: float
    wall_s: float
    usd: float


def stages(load: Load) -> list[Stage]:
    """Every stage of a load, in its order."""
    return [
        _mapped(load, "read", load.documents * load.read),
        _mapped(load, "encode", load.chunks * load.encode),
        _mapped(load, "names", load.chunks * load.names),
        _alone("resolve", load.chunks * resolve_s(load), 1, 1),
        _alone("write", load.chunks / load.write / load.writers, load.writers, load.batches),
    ]


def _mapped(load: Load, name: str, core_s: float) -> Stage:
    """A stage whose batches run beside each other, a core each."""
    return Stage(name, load.batches, core_s, core_s / load.parallel, _compute(load.batches, core_s))


def _alone(name: str, wall_s: float, writers: int, tasks: int) -> Stage:
    """A stage whose tasks run one after another, or a few beside each other."""
    core_s = wall_s * writers
    return Stage(name, tasks, core_s, wall_s, _compute(tasks, core_s, BOOK_MB))


def _compute(tasks: int, core_s: float, memory_mb: int = CORE_MB) -> float:
    return tasks * CALL.usd / MILLION + core_s * memory_mb / 1024 * COMPUTE.usd


def resolve_s(load: Load) -> float:
    """Give the seconds `resolve` takes for a chunk: to decide, and to wait for its shard."""
    return 1 / load.resolve + RESOLVE_GETS * load.get / AHEAD / (load.batch * load.chunks_each)


def resolve_limit(load: Load) -> int:
    """How many chunks one task of `resolve` stages before its function has to end."""
    return round(LAMBDA_S * 0.8 / resolve_s(load))


def name_limit(load: Load) -> int:
    """How many names nobody named before fit the memory of a task that has all decisions."""
    return int(BOOK_MB * 0.8 * 1000 / load.name_kb)


def moving(load: Load) -> dict[str, float]:
    """USD of what is not computing: the machine, its children, what lies between the stages."""
    tasks = sum(stage.tasks for stage in stages(load))
    return {
        "transitions of the maps' children, Standard": load.batches
        * TRANSITIONS
        * STANDARD.usd
        / MILLION,
        "objects between the stages": tasks * (2 * PUT.usd + 2 * GET.usd) / MILLION,
    }


def report(load: Load) -> str:
    """Table, total and limits as Markdown."""
    rows = ["| stage | tasks | core hours | wall hours | USD |", "|---|---|---|---|---|"]
    every = stages(load)
    rows += [
        f"| {stage.name} | {stage.tasks:,} | {stage.core_s / HOUR:,.0f} | "
        f"{stage.wall_s / HOUR:.1f} | {stage.usd:.2f} |"
        for stage in every
    ]
    rows += [f"| {name} | | | | {usd:.2f} |" for name, usd in moving(load).items()]
    wall = sum(stage.wall_s for stage in every)
    usd = sum(stage.usd for stage in every) + sum(moving(load).values())
    rows.append(f"| **all** | | | **{wall / HOUR:.1f}** | **{usd:.2f}** |")
    slowest = max(every, key=lambda stage: stage.wall_s)
    chunks_s = load.write * load.writers
    return "\n".join(
        [
            *rows,
            "",
            f"{load.parallel} functions beside each other; the longest stage is {slowest.name} "
            f"({slowest.wall_s / HOUR:.1f} h).",
            f"Peak load, {load.writers} writer(s): {chunks_s:,.0f} chunks a second on the index, "
            f"{chunks_s * load.mentions_each:,.0f} mentions a second on the graph.",
            f"One task of `resolve` ends at {resolve_limit(load):,} chunks or {name_limit(load):,} "
            f"new names; this load has {load.chunks:,} chunks: "
            f"{math.ceil(load.chunks / resolve_limit(load))} namespaces.",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table: `python -m benchmarks.ingestion_estimate [--documents N] ...`."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    for name in Load.__slots__:
        default = getattr(Load(), name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    sys.stdout.write(report(Load(**vars(parser.parse_args(arguments)))) + "\n")


if __name__ == "__main__":
    main()
