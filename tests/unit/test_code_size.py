"""The size of code: packing words into strings or lines saves no tokens."""

import pytest

from benchmarks.size import token_count


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a = 1\n", 3),
        ("a = 1; b = 2\n", 7),
        ("# a comment\n\na = 1  # another\n", 3),
        ('"""A docstring\nof two lines."""\n', 0),
        ('def f() -> str:\n    """Say."""\n    return ""\n', 9),
        ('a = "12345678"\n', 4),
        ('a = f"{b}12345678"\n', 8),
    ],
)
def test_tokens_are_counted(text: str, tokens: int) -> None:
    assert token_count(text) == tokens
