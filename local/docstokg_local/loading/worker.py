"""One process of `docstokg load --workers N`: it reads, encodes and finds names when asked.

Tasks and answers are pickles on its standard input and output, from and to its own parent. When
the parent ends, however it ends, the input ends, and so does the process.
"""

import functools
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

from docstokg.adapters.onnx.minilm import OnnxMiniLm
from docstokg.adapters.sqlite.vector_cache import CachedEmbedder, CachedNames, CachedSparseEncoder
from docstokg.contracts.records import FoundName
from docstokg.errors import DocsToKGError
from docstokg.loading.read.reading import Row, rows_of
from docstokg.loading.read.sources import SourceFile
from docstokg.loading.stores import readers_of
from docstokg.ports import Parts, Spans
from docstokg.settings import Settings
from docstokg.wiring import Wiring

SIZE_BYTES = 8


def serve(settings: Settings, source: IO[bytes], target: IO[bytes]) -> None:
    """Answer tasks until there are no more."""
    tasks = _tasks(Wiring(settings))
    while (task := read_message(source)) is not None:
        name, arguments = task
        try:
            answer: Any = (True, tasks[name](*arguments))
        except DocsToKGError as wrong:
            answer = (False, wrong)
        write_message(target, answer)


def _tasks(wiring: Wiring) -> Mapping[str, Callable[..., Any]]:
    """Name what this process does; the parent keeps the cache, so models are used as they are."""

    @functools.cache
    def dense() -> OnnxMiniLm:
        encoder = wiring.embedder()
        assert isinstance(encoder, CachedEmbedder) and isinstance(encoder.inner, OnnxMiniLm)
        return encoder.inner.with_threads(1)

    def embed(texts: Sequence[str]) -> tuple[bytes, ...]:
        return dense().embed(texts, None)

    def embed_parts(texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        return dense().embed_parts(texts, parts)

    def weigh(texts: Sequence[str]) -> tuple[dict[str, float], ...]:
        encoder = wiring.sparse_encoder()
        assert isinstance(encoder, CachedSparseEncoder)
        return encoder.inner.encode(texts, None)

    def names(texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        finder = wiring.names()
        assert isinstance(finder, CachedNames)
        return finder.inner.find(texts)

    def read(file: SourceFile) -> list[Row]:
        return list(rows_of(file, readers_of(wiring)))

    return {
        "embed": embed,
        "embed_parts": embed_parts,
        "weigh": weigh,
        "names": names,
        "read": read,
    }


def write_message(stream: IO[bytes], value: object) -> None:
    """Write a value with its size before it."""
    content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(len(content).to_bytes(SIZE_BYTES) + content)
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """Read a value; None at the end, also when it comes in the middle of one."""
    head = stream.read(SIZE_BYTES)
    if len(head) < SIZE_BYTES:
        return None
    size = int.from_bytes(head)
    content = stream.read(size)
    if len(content) < size:
        return None
    return pickle.loads(content)  # noqa: S301 (what the other end of our own pipe wrote)


def main() -> None:
    """Keep the pipe, and let what libraries print go to standard error."""
    target = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    settings = read_message(sys.stdin.buffer)
    if settings is not None:
        try:
            serve(settings, sys.stdin.buffer, target)
        except BrokenPipeError:
            # Nobody waits for the answer: the load has ended, which its own process has told.
            os._exit(1)


if __name__ == "__main__":
    main()
