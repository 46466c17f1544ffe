"""Writes ONNX models without torch or the onnx package: the few fields of its protobuf we need.

Weights stay outside the model: each is declared by name, type and shape, and given to the runtime
when the session is made. So a model is a few kilobytes and repeats nothing of the weights' file.
Field numbers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
"""

import struct
from collections.abc import Sequence

FLOAT, UINT8, INT8, INT32, INT64, BOOL = 1, 2, 3, 6, 7, 9
MICROSOFT = "com.microsoft"
"""The runtime's own operations, all of version 1."""
IR_VERSION = 9
OUTSIDE = 1
_REAL, _INT, _INTS = 1, 2, 7

type Attribute = int | float | Sequence[int]


class OnnxWriter:
    """Collects nodes in the order they run; values are named by what makes them."""

    def __init__(self, name: str, opset: int) -> None:
        self._name, self._opset = name, opset
        self._nodes: list[bytes] = []
        self._weights: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._domains: set[str] = set()

    def take(self, name: str, kind: int, shape: Sequence[str | int]) -> str:
        """Declare an input; a dimension is a number or the name of one that varies."""
        self._inputs.append(_value(name, kind, shape))
        return name

    def give(self, name: str, kind: int, shape: Sequence[str | int]) -> None:
        """Declare an output."""
        self._outputs.append(_value(name, kind, shape))

    def weight(self, name: str, kind: int, shape: Sequence[int]) -> str:
        """Declare a constant whose values come when the session is made."""
        place = _field(1, b"location") + _field(2, b"given")
        self._weights.append(
            b"".join(_number(1, size) for size in shape)
            + _number(2, kind)
            + _field(8, name.encode())
            + _field(13, place)
            + _number(14, OUTSIDE)
        )
        return name

    def integers(self, name: str, values: Sequence[int]) -> str:
        """Write a small constant of whole numbers into the model itself."""
        self._weights.append(
            _number(1, len(values))
            + _number(2, INT64)
            + b"".join(_number(7, value) for value in values)
            + _field(8, name.encode())
        )
        return name

    def node(
        self,
        kind: str,
        inputs: Sequence[str],
        output: str | Sequence[str],
        domain: str = "",
        **attributes: Attribute,
    ) -> str:
        """Add an operation, of a `domain` that is not ONNX's own, and name its first output."""
        outputs = [output] if isinstance(output, str) else list(output)
        self._domains |= {domain} - {""}
        self._nodes.append(
            b"".join(_field(1, name.encode()) for name in inputs)
            + b"".join(_field(2, name.encode()) for name in outputs)
            + _field(3, outputs[0].encode())
            + _field(4, kind.encode())
            + b"".join(_field(5, _attribute(*item)) for item in sorted(attributes.items()))
            + (_field(7, domain.encode()) if domain else b"")
        )
        return outputs[0]

    def model(self) -> bytes:
        """Serialise; the same calls give the same bytes."""
        graph = b"".join(_field(1, node) for node in self._nodes)
        graph += _field(2, self._name.encode())
        graph += b"".join(_field(5, weight) for weight in self._weights)
        graph += b"".join(_field(11, value) for value in self._inputs)
        graph += b"".join(_field(12, value) for value in self._outputs)
        versions = _field(8, _field(1, b"") + _number(2, self._opset))
        for domain in sorted(self._domains):
            versions += _field(8, _field(1, domain.encode()) + _number(2, 1))
        return _number(1, IR_VERSION) + _field(7, graph) + versions


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _field(1, name.encode()) + _number(3, value) + _number(20, _INT)
    if isinstance(value, float):
        real = _varint(2 << 3 | 5) + struct.pack("<f", value)
        return _field(1, name.encode()) + real + _number(20, _REAL)
    items = b"".join(_number(8, item) for item in value)
    return _field(1, name.encode()) + items + _number(20, _INTS)


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sizes = (
        _number(1, size) if isinstance(size, int) else _field(2, size.encode()) for size in shape
    )
    tensor = _number(1, kind) + _field(2, b"".join(_field(1, size) for size in sizes))
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value & (2**64 - 1))


def _varint(value: int) -> bytes:
    octets = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        octets.append(low | (0x80 if value else 0))
        if not value:
            return bytes(octets)
