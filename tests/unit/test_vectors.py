"""Packed vectors are a quarter of a byte string and almost the vectors they were."""

import numpy as np
import pytest

from docstokg.domain.vectors import pack, packed, unpack, unpacked


@pytest.mark.parametrize("dimension", [1, 2, 7, 384])
def test_packed_vectors_keep_their_cosines(dimension: int) -> None:
    random = np.random.default_rng(dimension)
    vectors = [pack(random.normal(size=dimension)) for _ in range(50)]
    joined = packed(vectors)
    assert len(joined) == 50 * ((dimension + 1) // 2)
    rows, exact = unpacked(joined, dimension), np.stack([unpack(vector) for vector in vectors])
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)
    error = np.abs(rows @ exact.T - exact @ exact.T)
    assert error.max() < (0.03 if dimension == 384 else 0.6)
    if dimension == 384:
        assert error.mean() < 0.006


def test_empty_stays_empty_and_torn_ends_are_dropped() -> None:
    assert packed([]) == b""
    assert unpacked(b"", 384).shape == (0, 384)
    joined = packed([pack([1.0, 2.0, 3.0, 4.0])] * 2)
    assert unpacked(joined[:-1], 4).shape == (1, 4)
    assert unpacked(joined, 0).shape == (0, 0)
