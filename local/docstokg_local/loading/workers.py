"""Processes of `docstokg load --workers`."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, partial
from itertools import batched
from multiprocessing import get_context, parent_process
from typing import Any

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder, CachedSparseEncoder
from docstokg.contracts import Json
from docstokg.contracts.records import FoundName
from docstokg.domain.deadline import Deadline
from docstokg.errors import Unavailable
from docstokg.loading.read.reading import Row, rows_of
from docstokg.loading.read.sources import SourceFile
from docstokg.loading.stores import readers_of
from docstokg.loading.write.chunk_writing import prefetched
from docstokg.ports import Parts, Spans
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
            embedder = _RemoteModel(self, "embedder", dense.inner)
            wiring.override("embedder", CachedEmbedder(embedder, folder, others=dense.others))
        if isinstance(sparse, CachedSparseEncoder):
            encoder = _RemoteModel(self, "sparse_encoder", sparse.inner)
            wiring.override("sparse_encoder", CachedSparseEncoder(encoder, folder))
        if names:
            wiring.override("names", _RemoteModel(self, "names", names))

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
        with _broken_is_unavailable():
            yield from prefetched(self._pool, _read, files, 2 * self._count + 1)

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
def _model(port: str) -> Any:
    model = getattr(_process["wiring"], port)()
    if isinstance(model, CachedEmbedder | CachedSparseEncoder):
        model = model.inner
    return model.with_threads(1) if isinstance(model, OnnxMiniLm) else model


def _run(port: str, method: str, fields: Json, *columns: Sequence[Any]) -> Sequence[Any]:
    return tuple(getattr(_model(port), method)(*columns, **fields))


class _RemoteModel:
    """Runs an embedder, sparse encoder or name finder in the processes."""

    def __init__(self, processes: LoadProcesses, port: str, inner: Any) -> None:
        self._processes, self._port, self._inner = processes, port, inner
        self.model: str = inner.model
        self.dimension: int = getattr(inner, "dimension", 0)

    def _run(self, method: str, *columns: Sequence[Any], **fields: Any) -> tuple[Any, ...]:
        task = partial(_run, self._port, method, fields)
        return tuple(self._processes.run_batches(task, *columns))

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        return self._run("embed", texts, deadline=None)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        return self._run("embed_parts", texts, parts)

    def encode(
        self, texts: Sequence[str], deadline: Deadline | None
    ) -> tuple[dict[str, float], ...]:
        return self._run("encode", texts, deadline=None)

    def encode_query(self, text: str, deadline: Deadline | None) -> Any:
        return self._inner.encode_query(text, deadline)

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        return self._run("find", texts)
