"""`docstokg load --workers N`: N processes read, encode and find names; one process writes.

What they give comes back in the order it was asked for, so the number of processes changes
nothing but the time.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import batched
from typing import Any

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder, CachedNames, CachedSparseEncoder
from docstokg.contracts.records import FoundName
from docstokg.errors import Unavailable
from docstokg.loading.read.reading import Row
from docstokg.loading.read.sources import SourceFile
from docstokg.ports import Embedder, NameFinder, Parts, Spans, SparseEncoder
from docstokg.settings import Settings
from docstokg.wiring import Wiring
from docstokg_local.loading.worker import read_message, write_message

TASK_TEXTS = 16
"""Texts a process gets at a time: few enough that all of them stay busy to the end."""
ENDED = "a process of this load has ended: load again, with --workers 1 where memory is short"
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


class Workers:
    """The processes; they are started by the first task and end with `close()` or this process."""

    def __init__(self, settings: Settings, count: int) -> None:
        self._settings = settings
        self._count = count
        self._lock = threading.Lock()
        self._free: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._started: list[_Worker] = []
        # Reading, both encoders and names ask at once: each waits for a process that is free.
        self._asking = ThreadPoolExecutor(4 * count, thread_name_prefix="worker")

    def give_to(self, wiring: Wiring) -> None:
        """Let the local models of a wiring run in the processes, behind the same cache."""
        folder = wiring.cache_folder()
        dense, sparse, names = wiring.embedder(), wiring.sparse_encoder(), wiring.names()
        if isinstance(dense, CachedEmbedder) and isinstance(dense.inner, OnnxMiniLm):
            wiring.override("embedder", CachedEmbedder(_Embedder(self, dense.inner), folder))
        if isinstance(sparse, CachedSparseEncoder):
            wiring.override(
                "sparse_encoder", CachedSparseEncoder(_Sparse(self, sparse.inner), folder)
            )
        if isinstance(names, CachedNames):
            wiring.override("names", CachedNames(_Names(self, names.inner), folder))

    def ask(self, task: str, *arguments: object) -> Future[Any]:
        """Do a task in a process that is free; the future raises what it raised."""
        return self._asking.submit(self._exchange, task, arguments)

    def over(self, task: str, *columns: Sequence[Any]) -> list[Any]:
        """Do a task over rows, some at a time, and give all answers in order."""
        parts = [batched(column, TASK_TEXTS, strict=False) for column in columns]
        futures = [self.ask(task, *part) for part in zip(*parts, strict=True)]
        return [row for answer in futures for row in answer.result()]

    def read(self, files: Sequence[SourceFile]) -> Iterator[tuple[SourceFile, Sequence[Row]]]:
        """Read files a little ahead of who takes them, and give them in their order."""
        ahead: deque[tuple[SourceFile, Future[list[Row]]]] = deque()
        for file in files:
            ahead.append((file, self.ask("read", file)))
            if len(ahead) > 2 * self._count:
                yield _finished(*ahead.popleft())
        while ahead:
            yield _finished(*ahead.popleft())

    def close(self) -> None:
        """End the processes."""
        self._asking.shutdown(cancel_futures=True)
        for worker in self._started:
            worker.close()

    def _exchange(self, task: str, arguments: tuple[object, ...]) -> Any:
        with self._lock:
            if not self._started:
                self._started = [_Worker(self._settings) for _ in range(self._count)]
                for worker in self._started:
                    self._free.put(worker)
        worker = self._free.get()
        try:
            good, answer = worker.exchange((task, arguments))
        finally:
            self._free.put(worker)
        if not good:
            raise answer
        return answer


def _finished(file: SourceFile, reading: Future[list[Row]]) -> tuple[SourceFile, Sequence[Row]]:
    return file, reading.result()


class _Worker:
    def __init__(self, settings: Settings) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "docstokg_local.loading.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                **dict.fromkeys(ONE_THREAD, "1"),
                "TOKENIZERS_PARALLELISM": "false",
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            },
        )
        assert self._process.stdin is not None
        write_message(self._process.stdin, settings)

    def exchange(self, task: object) -> Any:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            write_message(process.stdin, task)
            answer = read_message(process.stdout)
        except OSError as broken:
            raise Unavailable(f"{ENDED}: {broken}") from broken
        if answer is None:
            raise Unavailable(ENDED)
        return answer

    def close(self) -> None:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()
        process.stdout.close()


class _Elsewhere[Model: Embedder | SparseEncoder | NameFinder]:
    """A model whose work the processes do; this one only says which it is."""

    def __init__(self, workers: Workers, model: Model) -> None:
        self._workers, self._model = workers, model

    @property
    def model(self) -> str:
        return self._model.model


class _Embedder(_Elsewhere[Embedder]):
    """An `Embedder` whose work others do."""

    @property
    def dimension(self) -> int:
        return self._model.dimension

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        return tuple(self._workers.over("embed", texts))

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        return tuple(self._workers.over("embed_parts", texts, parts))


class _Sparse(_Elsewhere[SparseEncoder]):
    """A `SparseEncoder` for passages; a load encodes no questions."""

    def encode(self, texts: Sequence[str], timeout_s: float | None) -> tuple[dict[str, float], ...]:
        return tuple(self._workers.over("weigh", texts))

    def encode_query(self, text: str, timeout_s: float | None) -> dict[str, float]:
        return self._model.encode_query(text, timeout_s)


class _Names(_Elsewhere[NameFinder]):
    """A `NameFinder` whose work others do."""

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        return tuple(self._workers.over("names", texts))
