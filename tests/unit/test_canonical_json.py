"""Canonical JSON is RFC 8785's: numbers as ECMAScript writes them, names in UTF-16 order."""

import json
import math
import random
import shutil
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rfc8785 import dumps as canonical_json

from tests.builders import ran

NUMBERS = {
    0.0: "0", 1.0: "1", -1.5: "-1.5", 5e-324: "5e-324", -5e-324: "-5e-324",
    1.7976931348623157e308: "1.7976931348623157e+308", 9007199254740992.0: "9007199254740992",
    295147905179352830000.0: "295147905179352830000", 9.999999999999997e22: "9.999999999999997e+22",
    1e23: "1e+23", 1.0000000000000001e23: "1.0000000000000001e+23", 1e21: "1e+21",
    1e20: "1" + "0" * 20,
    999999999999999700000.0: "999999999999999700000", 9.999999999999997e-7: "9.999999999999997e-7",
    0.000001: "0.000001", 1e-7: "1e-7", 333333333.3333333: "333333333.3333333",
    1424953923781206.2: "1424953923781206.2",
}  # fmt: skip
"""Of RFC 8785, appendix B, and around the borders of ECMAScript's notations."""
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2.0**53), 2.0**53, exclude_min=True, exclude_max=True)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_numbers_are_those_of_the_standard() -> None:
    assert [canonical_json(number).decode() for number in NUMBERS] == list(NUMBERS.values())
    assert canonical_json(-0.0) == b"0"


def test_numbers_are_those_of_a_javascript_engine() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    draw = random.Random(8785)
    bits = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(20_000)]
    near = [draw.uniform(-1, 1) * 10.0 ** draw.randint(-12, 25) for _ in range(20_000)]
    numbers = [number for number in [*bits, *near] if math.isfinite(number)]
    program = (
        "let t = ''; process.stdin.on('data', d => t += d)"
        ".on('end', () => process.stdout.write(JSON.stringify(JSON.parse(t))))"
    )
    done = ran(node, "-e", program, input=json.dumps(numbers), check=True)
    assert canonical_json(numbers).decode() == done.stdout


@given(VALUES)
def test_every_value_has_a_single_faithful_form(value: object) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text
    assert canonical_json(json.loads(json.dumps(value))) == text


def test_names_sort_by_utf_16_with_minimal_escapes() -> None:
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}
    order = ["\r", "1", "\x80", "\xf6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical_json(value))) == order
    assert (
        canonical_json("\u20ac$\x0f\nA'B\"\\/\x7f")
        == '"\u20ac$\\u000f\\nA\'B\\"\\\\/\x7f"'.encode()
    )


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**53, -(2**53), "\ud800", {"\udfff": 1}, {1: 2}, b"x"]
)
def test_what_json_cannot_carry_has_no_form(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical_json(value)
