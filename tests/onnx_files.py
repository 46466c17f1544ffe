"""Writes tiny real ONNX models, so that adapters meet the true runtime without a download."""

from collections.abc import Sequence
from pathlib import Path

INT64, FLOAT = 7, 1


def write_model(path: Path, columns: Sequence[str], takes: int = INT64) -> Path:
    """Write a model whose logits are made of s = the sum of `input_ids` of a row.

    `columns`: of `plus` (s), `minus` (-s), `zero` (0), one per class.
    `takes`: the type of `input_ids`; with FLOAT every run fails.
    """
    nodes = [
        _node("Cast", ["input_ids"], ["floats"], [_attribute("to", 2, integer=FLOAT)]),
        _node(
            "ReduceSum",
            ["floats"],
            ["plus"],
            [_attribute("axes", 7, integers=[1]), _attribute("keepdims", 2, integer=1)],
        ),
        _node("Neg", ["plus"], ["minus"], []),
        _node("Sub", ["plus", "plus"], ["zero"], []),
        _node("Concat", list(columns), ["logits"], [_attribute("axis", 2, integer=1)]),
    ]
    graph = b"".join(_field(1, node) for node in nodes)
    graph += _field(2, b"tiny")
    graph += _field(11, _value("input_ids", takes, ["batch", "length"]))
    graph += _field(12, _value("logits", FLOAT, ["batch", "classes"]))
    model = _number(1, 6) + _field(7, graph) + _field(8, _field(1, b"") + _number(2, 11))
    path.write_bytes(model)
    return path


def _node(kind: str, inputs: list[str], outputs: list[str], attributes: list[bytes]) -> bytes:
    parts = [_field(1, name.encode()) for name in inputs]
    parts += [_field(2, name.encode()) for name in outputs]
    parts.append(_field(4, kind.encode()))
    return b"".join(parts) + b"".join(_field(5, attribute) for attribute in attributes)


def _attribute(name: str, kind: int, integer: int = 0, integers: Sequence[int] = ()) -> bytes:
    value = b"".join(_number(8, item) for item in integers) if integers else _number(3, integer)
    return _field(1, name.encode()) + value + _number(20, kind)


def _value(name: str, kind: int, shape: list[str]) -> bytes:
    dimensions = b"".join(_field(1, _field(2, item.encode())) for item in shape)
    tensor = _number(1, kind) + _field(2, dimensions)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(payload)) + payload


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        encoded.append(low | (0x80 if value else 0))
        if not value:
            return bytes(encoded)
