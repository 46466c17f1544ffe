"""Reads the constants of an ONNX model without the onnx package: the few fields we need.

Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from docstokg.adapters.onnx.writing import FLOAT, INT8

_KINDS: dict[int, Any] = {FLOAT: np.float32, INT8: np.int8}
_GRAPH, _NODE, _CONSTANT = 7, 1, 5
_INPUT, _KIND = 1, 4
_SIZES, _TYPE, _NAME, _BYTES = 1, 2, 8, 9
_WHOLE, _TEXT = 0, 2
_FIXED = {1: 8, 5: 4}


def read_constants(model: bytes) -> dict[str, NDArray[Any]]:
    """Give the real and 8-bit constants by name: views of `model`, not copies."""
    constants: dict[str, NDArray[Any]] = {}
    for number, constant in _fields(_graph(model)):
        if number == _CONSTANT:
            sizes, one = [], {}
            for key, value in _fields(constant):
                if key == _SIZES:
                    sizes += [value] if isinstance(value, int) else list(_varints(value))
                else:
                    one[key] = value
            if one.get(_TYPE) in _KINDS and _BYTES in one:
                values = np.frombuffer(one[_BYTES], _KINDS[one[_TYPE]])
                constants[str(one[_NAME], "utf-8")] = values.reshape(sizes)
    return constants


def read_inputs(model: bytes, kind: str) -> list[tuple[str, ...]]:
    """List what every node of this kind takes, in the order they run."""
    rows = []
    for number, node in _fields(_graph(model)):
        if number == _NODE:
            parts = list(_fields(node))
            if any(key == _KIND and bytes(value) == kind.encode() for key, value in parts):
                rows.append(tuple(str(value, "utf-8") for key, value in parts if key == _INPUT))
    return rows


def _graph(model: bytes) -> memoryview:
    return next(value for number, value in _fields(memoryview(model)) if number == _GRAPH)


def _fields(message: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield each field's number, and its value: a whole number, or the bytes it holds."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == _WHOLE:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        size = _FIXED.get(key & 7, 0)
        if key & 7 == _TEXT:
            size, at = _varint(message, at)
        yield key >> 3, message[at : at + size]
        at += size


def _varints(packed: memoryview) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _varint(packed, at)
        yield value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        octet = message[at]
        value |= (octet & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if octet < 0x80:
            return value, at
