"""Ports of a local load."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder
from docstokg.loading.context import Stores
from docstokg.loading.stores import stores_of as ports_of
from docstokg.wiring import Wiring

# Threads of the local encoder in a load.
THREADS = 2
# Minimum bytes for which a second process saves time.
SMALL_LOAD_BYTES = 1_000_000
MOST_WORKERS = 4
# Memory per process; measured: 600 MB each, also for the writer.
WORKER_BYTES = 1_000_000_000
CONTAINER_MEMORY = Path("/sys/fs/cgroup/memory.max")


def stores_of(wiring: Wiring, embed: bool = True) -> Stores:
    """Return a load's ports; the local encoder uses THREADS threads."""
    stores = ports_of(wiring, embed)
    cached = stores.embedder
    if not (isinstance(cached, CachedEmbedder) and isinstance(cached.inner, OnnxMiniLm)):
        return stores
    inner = cached.inner.with_threads(THREADS)
    shared = CachedEmbedder(inner, wiring.cache_folder(), others=cached.others)
    return replace(stores, embedder=shared)


def workers_for(sources: Sequence[Path]) -> int:
    """Return the number of processes: 1 for small loads, else one per core, limited by memory.

    At most MOST_WORKERS.
    """
    if not _has_bytes(sources, SMALL_LOAD_BYTES):
        return 1
    return max(1, min(os.cpu_count() or 1, MOST_WORKERS, _memory_bytes() // WORKER_BYTES))


def _has_bytes(sources: Sequence[Path], enough: int) -> bool:
    size = 0
    for path in chain(sources, *(source.rglob("*") for source in sources)):
        size += path.stat().st_size if path.is_file() else 0
        if size >= enough:
            return True
    return False


def _memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = CONTAINER_MEMORY.read_text("ascii").strip()
    except OSError:  # no such limit on this system
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine


@contextmanager
def stores_with_workers(wiring: Wiring, embed: bool, workers: int) -> Iterator[Stores]:
    """Yield a load's ports; `workers` processes (if over 1) read, encode and find names."""
    if workers <= 1:
        yield stores_of(wiring, embed)
        return
    from docstokg_local.loading.workers import LoadProcesses

    processes = LoadProcesses(wiring.settings, workers)
    try:
        processes.serve(wiring)
        stores = stores_of(wiring, embed)
        yield replace(stores, readers=replace(stores.readers, several=processes.read))
    finally:
        processes.close()
