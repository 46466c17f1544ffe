"""Byte formats of vectors.

Float vectors are float32 little-endian unit vectors. Compact ones are int8: cosine error < 0.01.
Packed ones (sentences) have 4 bits per component: cosine error about 0.005.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from docstokg.domain.deadline import Deadline

Floats = NDArray[np.float32]

# Maximum deviation of a unit vector's length from 1.
ROUNDED = 0.01


def pack(vector: Sequence[float] | Floats) -> bytes:
    """Normalise to unit length and return float32 bytes; a zero vector stays zero.

    Raise OverflowError if the length is not finite in float32.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.asarray(vector, dtype="<f4")
        norm = float(np.linalg.norm(values))
    if not np.isfinite(norm):
        raise OverflowError("the length of a vector is not finite")
    return (values / norm if norm > 0 else values).astype("<f4").tobytes()


def unpack(vector: bytes) -> Floats:
    """Return float32 bytes as an array, shape (dimension,)."""
    return np.frombuffer(vector, dtype="<f4")


def is_unit(vector: bytes) -> bool:
    """Return whether float32 bytes are a unit vector (with rounding) or zeros."""
    length = float(np.linalg.norm(unpack(vector)))
    return length == 0.0 or abs(length - 1) <= ROUNDED


def quantise(vector: bytes) -> bytes:
    """Return a float32 unit vector as int8: each component times 127, rounded."""
    return quantised(unpack(vector)).tobytes()


def quantised(vectors: Floats) -> NDArray[np.int8]:
    """Return the compact form of unit vectors of any shape."""
    return np.clip(np.rint(vectors * 127), -127, 127).astype(np.int8)


def matrix(compact: Sequence[bytes]) -> Floats:
    """Stack compact vectors of equal length into unit rows: (n, dimension), or (0, 0) for none."""
    if not compact:
        return np.zeros((0, 0), dtype=np.float32)
    stacked = np.frombuffer(b"".join(compact), dtype=np.int8).astype(np.float32)
    return _unit(stacked.reshape(len(compact), -1))


def _unit(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)


# The best step for 16 even levels of a normal distribution, in standard deviations.
_STEP = 0.335


def packed(vectors: Sequence[bytes]) -> bytes:
    """Join float32 unit vectors of equal length at 4 bits per component; b"" for none."""
    if not vectors:
        return b""
    rows = np.stack([unpack(vector) for vector in vectors])
    scale = _STEP / np.sqrt(rows.shape[1])
    levels = np.clip(np.floor(rows / scale) + 8, 0, 15).astype(np.uint8)
    if levels.shape[1] % 2:
        levels = np.hstack([levels, np.full((len(levels), 1), 8, dtype=np.uint8)])
    return bytes((levels[:, ::2] << 4 | levels[:, 1::2]).tobytes())


def unpacked(joined: bytes, dimension: int) -> Floats:
    """Return packed vectors as unit rows, shape (n, dimension); drop an incomplete last one."""
    width = (dimension + 1) // 2
    count = len(joined) // width if width else 0
    halves = np.frombuffer(joined[: count * width], dtype=np.uint8).reshape(count, width)
    levels = np.stack([halves >> 4, halves & 15], axis=2).reshape(count, 2 * width)
    return _unit(levels[:, :dimension].astype(np.float32) - 7.5)


def embedded_apart(
    embed: Callable[[Sequence[str], Deadline | None], Sequence[bytes]],
    texts: Sequence[str],
    parts: Sequence[Sequence[tuple[int, int]]],
) -> tuple[tuple[bytes, bytes], ...]:
    """Return per text its vector and its spans' `packed` vectors, embedded separately.

    Raise ValueError if the numbers of `texts` and `parts` differ.
    """
    pieces = [text[a:b] for text, spans in zip(texts, parts, strict=True) for a, b in spans]
    whole, part_vectors = embed(texts, None), iter(embed(pieces, None))
    return tuple(
        (vector, packed([next(part_vectors) for _ in spans]))
        for vector, spans in zip(whole, parts, strict=True)
    )
