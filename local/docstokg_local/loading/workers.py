"""Processes of `docstokg load --workers`."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from itertools import batched
from multiprocessing import get_context, parent_process
from typing import Any

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder, CachedSparseEncoder
from docstokg.contracts.records import FoundName
from docstokg.domain.deadline import Deadline
from docstokg.errors import Unavailable
from docstokg.loading.read.reading import Row, rows_of
from docstokg.loading.read.sources import SourceFile
from docstokg.loading.stores import readers_of
from docstokg.ports import Embedder, NameFinder, Parts, Spans, SparseEncoder
from docstokg.settings import Settings
from docstokg.wiring import Wiring

# Texts per task, to keep all processes busy.
TASK_TEXTS = 16

ENDED = "a worker process of this load ended; load again, with --workers 1 if memory is low"
CHILD_VARIABLES = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
_process: dict[str, Wiring] = {}  # wiring of a pool process, created when it starts


class LoadProcesses:
    """A pool of processes until `close()`."""

    def __init__(self, settings: Settings, count: int) -> None:
        self._count = count
        os.environ.update(CHILD_VARIABLES)  # read by new processes; this one has started
        self._pool = ProcessPoolExecutor(count, get_context("spawn"), _start, (settings,))

    def serve(self, wiring: Wiring) -> None:
        """Run the local models of a wiring in the processes, with the same cache."""
        folder = wiring.cache_folder()
        dense, sparse, names = wiring.embedder(), wiring.sparse_encoder(), wiring.names()
        if isinstance(dense, CachedEmbedder) and isinstance(dense.inner, OnnxMiniLm):
            embedder = _RemoteEmbedder(self, dense.inner)
            wiring.override("embedder", CachedEmbedder(embedder, folder, others=dense.others))
        if isinstance(sparse, CachedSparseEncoder):
            encoder = _RemoteSparseEncoder(self, sparse.inner)
            wiring.override("sparse_encoder", CachedSparseEncoder(encoder, folder))
        if names:
            wiring.override("names", _RemoteNameFinder(self, names))

    def run_batches[Result](
        self, task: Callable[..., Sequence[Result]], *columns: Sequence[Any]
    ) -> list[Result]:
        """Run a task over batches of rows and return all results in order.

        Raises `Unavailable` if a process has ended.
        """
        parts = [batched(column, TASK_TEXTS) for column in columns]
        with _broken_is_unavailable():
            futures = [self._pool.submit(task, *part) for part in zip(*parts, strict=True)]
            return [row for future in futures for row in future.result()]

    def read(self, files: Sequence[SourceFile]) -> Iterator[tuple[SourceFile, Sequence[Row]]]:
        """Read ahead; yield files in order, bad ones as rejects; `Unavailable` if a worker ends."""
        ahead: deque[tuple[SourceFile, Future[list[Row]]]] = deque()
        with _broken_is_unavailable():
            for file in files:
                ahead.append((file, self._pool.submit(_read, file)))
                if len(ahead) > 2 * self._count:
                    first, rows = ahead.popleft()
                    yield first, rows.result()
            for file, rows in ahead:
                yield file, rows.result()

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def _broken_is_unavailable() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as broken:
        raise Unavailable(ENDED) from broken


def _start(settings: Settings) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets it too, and ends the pool
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _process["wiring"] = Wiring(settings)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _read(file: SourceFile) -> list[Row]:
    return list(rows_of(file, readers_of(_process["wiring"])))


@cache
def _embedder() -> Embedder:
    embedder = _process["wiring"].embedder()
    assert isinstance(embedder, CachedEmbedder)
    assert isinstance(embedder.inner, OnnxMiniLm)
    return embedder.inner.with_threads(1)


@cache
def _sparse_encoder() -> SparseEncoder:
    encoder = _process["wiring"].sparse_encoder()
    assert isinstance(encoder, CachedSparseEncoder)
    return encoder.inner


@cache
def _name_finder() -> NameFinder:
    finder = _process["wiring"].names()
    assert finder is not None
    return finder


def _embed(texts: Sequence[str]) -> Sequence[bytes]:
    return _embedder().embed(texts, None)


def _embed_parts(texts: Sequence[str], parts: Sequence[Spans]) -> Sequence[Parts]:
    return _embedder().embed_parts(texts, parts)


def _encode(texts: Sequence[str]) -> Sequence[dict[str, float]]:
    return _sparse_encoder().encode(texts, None)


def _find(texts: Sequence[str]) -> Sequence[tuple[FoundName, ...]]:
    return _name_finder().find(texts)


class _RemoteEmbedder:
    def __init__(self, processes: LoadProcesses, inner: Embedder) -> None:
        self._processes = processes
        self.model, self.dimension = inner.model, inner.dimension

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        return tuple(self._processes.run_batches(_embed, texts))

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        return tuple(self._processes.run_batches(_embed_parts, texts, parts))


class _RemoteSparseEncoder:
    def __init__(self, processes: LoadProcesses, inner: SparseEncoder) -> None:
        self._processes, self._inner, self.model = processes, inner, inner.model

    def encode(
        self, texts: Sequence[str], deadline: Deadline | None
    ) -> tuple[dict[str, float], ...]:
        return tuple(self._processes.run_batches(_encode, texts))

    def encode_query(self, text: str, deadline: Deadline | None) -> dict[str, float]:
        return self._inner.encode_query(text, deadline)


class _RemoteNameFinder:
    def __init__(self, processes: LoadProcesses, inner: NameFinder) -> None:
        self._processes, self.model = processes, inner.model

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        return tuple(self._processes.run_batches(_find, texts))
