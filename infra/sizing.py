"""Sizing from measured figures."""

import json
from bisect import bisect_left
from functools import cache
from math import ceil
from typing import NamedTuple

from docstokg.contracts.language_models import EXTRACTIVE
from infra.settings import Environment, Index
from infra.specs import ROOT

# Largest measured shard whose question takes at most SLOWEST times that of 100,000 chunks.
SHARD_CHUNKS = 500_000
SLOWEST = 3.0
# Maximum bytes on disk per chunk (docs/measured.md, how large it may become).
CHUNK_BYTES = 12_900
# Resident memory per chunk, from the same table.
RESIDENT_BYTES = 3_000
# OpenSearch's CPU per question by number of chunks, from the same table.
CPU_MS = ((0, 30.0), (25_418, 32.0), (127_090, 44.0), (508_360, 76.0), (1_004_011, 169.0))
# Usable share of the CPUs; above it an alarm fires.
BUSY = 0.8
# Share of a disk under which `index-storage` fires.
FREE_SHARE = 0.25
# Of a disk, the file system takes this share, and the service keeps that one, up to some GiB.
FILE_SYSTEM, RESERVED, MOST_RESERVED_GIB = 0.05, 0.2, 20
# The index, and its copies while `resize` runs; a restore and a drill need less.
COPIES_AT_ONCE = 3
# Neo4j's memory per 100,000 chunks, and AuraDB's price of a GB and month.
GRAPH_GB = 2
GRAPH_GB_USD = 65
# CPUs of the sizes below `xlarge`, which has four.
SMALL = {"nano": 1, "micro": 1, "small": 1, "medium": 1, "large": 2}
# CPUs that a burstable node has without credits (EC2 user guide, baseline utilization).
BURSTABLE = {
    "t2.micro.search": 0.1,
    "t2.small.search": 0.2,
    "t2.medium.search": 0.4,
    "t3.nano.search": 0.1,
    "t3.micro.search": 0.2,
    "t3.small.search": 0.4,
    "t3.medium.search": 0.4,
    "t4g.small.search": 0.4,
    "t4g.medium.search": 0.4,
}
# Memory of a node; the service gives half of it to the heap.
MEMORY_GIB = {
    "t3.small.search": 2,
    "t3.medium.search": 4,
    "m7g.medium.search": 4,
    "m7g.large.search": 8,
    "r7g.large.search": 16,
    "r7g.xlarge.search": 32,
}
GIB = 1024**3


# Functions of a question, in order; `authorize` is called for a new token.
SEARCH = ("validate", "retrieve", "expand", "ground", "respond")
ANSWER = (*SEARCH, "synthesize")
READS_STORES = (*SEARCH[1:], "traverse", "check", "record")
# Assumed seconds that a step waits for a store, and `synthesize` for a remote model.
STORE_S = 0.02
MODEL_S = 2.0


class Layout(NamedTuple):
    """Primary shards, and replicas of each."""

    shards: int
    replicas: int


def layout(data_nodes: int, zones: int, chunks: int) -> Layout:
    """Return the layout in which every node and every zone answers questions.

    The copies of a shard are a multiple of the zones, and at most one per node.
    """
    shards = max(1, ceil(chunks / SHARD_CHUNKS))
    wanted = max(zones, ceil(data_nodes / shards), min(2, data_nodes))
    copies = min(ceil(wanted / zones) * zones, data_nodes // zones * zones or 1)
    return Layout(shards, copies - 1)


@cache
def _warm_ms() -> dict[str, float]:
    report = json.loads((ROOT / "benchmarks" / "bundles.json").read_text("utf-8"))
    return {name: row["warm_mean_ms"] for name, row in report["functions"].items()}


def seconds(name: str, model_s: float = 0.0) -> float:
    """Return the mean seconds of a warm call: as measured, and the waits that are not.

    `stream` and `mcp` last as long as a whole answer. `model_s`: of a remote model.
    """
    if name in ("stream", "mcp"):
        return sum(seconds(step, model_s) for step in ANSWER)
    waits = STORE_S if name in READS_STORES else 0.0
    return _warm_ms()[name] / 1000 + waits + (model_s if name == "synthesize" else 0.0)


def concurrency(name: str, rate: float, model_s: float) -> int:
    """Return the concurrent calls of a function at `rate` requests per second.

    Little's law, rate x calls x seconds: a question may call `retrieve` to recall and `expand` to
    route as well.
    """
    calls = 2 if name in ("retrieve", "expand") else 1
    return ceil(rate * calls * seconds(name, model_s))


def cpu_ms(chunks: int) -> float:
    """Return OpenSearch's CPU milliseconds per question, summed over its shards.

    Interpolated between measured sizes of a shard, none of which is exceeded.
    """
    shards = layout(1, 1, chunks).shards
    size = chunks / shards
    below = max(1, bisect_left([measured for measured, _ in CPU_MS], size))
    (low, at_low), (high, at_high) = CPU_MS[below - 1 : below + 1]
    return shards * (at_low + (size - low) * (at_high - at_low) / (high - low))


def slower(chunks: int) -> float:
    """Return the CPU time of a question in one shard, as a ratio to 100,000 chunks."""
    return cpu_ms(chunks) / layout(1, 1, chunks).shards / cpu_ms(100_000)


def questions_per_second(index: Index) -> float:
    """Return the questions per second that keep a new domain's nodes 80 % busy."""
    nodes = _nodes_in_use(index)
    burst = BURSTABLE.get(index.instance_type)
    size = index.instance_type.split(".")[1]
    vcpus = burst or SMALL.get(size) or 4 * int(size.removesuffix("xlarge") or 1)
    return nodes * vcpus * BUSY * 1000 / cpu_ms(index.chunks)


def chunks_per_node(index: Index) -> float:
    """Return the expected chunks on a data node, each replica counted."""
    copies = layout(index.data_nodes, index.zones, index.chunks).replicas + 1
    return index.chunks * copies / _nodes_in_use(index)


def gib_per_node(index: Index) -> float:
    """Return the GiB of disk that the expected chunks take on a data node."""
    return chunks_per_node(index) * CHUNK_BYTES / GIB


def disk_gib(data_gib: float) -> int:
    """Return the disk of a node for this data: a multiple of 10 GiB.

    Without the file system's share and the service's reserve (its guide, "Sizing OpenSearch Service
    domains") it holds the data COPIES_AT_ONCE times, and at rest `index-storage` is quiet.
    """
    volume = 10
    while (
        _usable_gib(volume) < COPIES_AT_ONCE * data_gib
        or _usable_gib(volume) - data_gib < FREE_SHARE * volume
    ):
        volume += 10
    return volume


def _usable_gib(volume: int) -> float:
    return volume * (1 - FILE_SYSTEM) - min(MOST_RESERVED_GIB, RESERVED * volume)


def graph_gb(chunks: int) -> int:
    """Return the memory of a Neo4j for these chunks, GB."""
    return ceil(chunks / 100_000 * GRAPH_GB)


def limits(environment: Environment) -> list[tuple[float, str]]:
    """Return the questions per second at which each part of an environment ends, lowest first.

    Plans, index, and reserved or account's functions (Little's law), with a model's seconds if it
    has one.
    """
    model_s = model_seconds(environment)
    whole = sum(seconds(name, model_s) for name in ANSWER)
    rates = [(environment.function_quota / whole, "function_quota")]
    if environment.metering:
        rates.append((environment.rate, "metering"))
    if environment.index.kind == "managed":
        rates.append((questions_per_second(environment.index), "index"))
    for name in (*ANSWER, "stream", "mcp"):
        if reserved := environment.concurrency.get(name):
            calls = concurrency(name, 1_000, model_s)
            rates.append((reserved * 1_000 / calls, f"concurrency.{name}"))
    return sorted(rates)


def model_seconds(environment: Environment) -> float:
    """Return the seconds that `synthesize` waits for a remote model; 0 if none is configured."""
    return MODEL_S if set(environment.models) - {EXTRACTIVE} else 0.0


def fits(index: Index, rate: float) -> bool:
    """Return whether the nodes answer `rate` questions per second from memory.

    Raise KeyError for unknown instance types.
    """
    cached = chunks_per_node(index) * RESIDENT_BYTES / GIB
    in_memory = cached <= MEMORY_GIB[index.instance_type] / 2
    return in_memory and questions_per_second(index) >= rate


def _nodes_in_use(index: Index) -> int:
    shards, replicas = layout(index.data_nodes, index.zones, index.chunks)
    return min(index.data_nodes, shards * (replicas + 1))
