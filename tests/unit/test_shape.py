"""What the table of sizes counts as code, and where."""

import ast

from benchmarks.shape import code_lines, folder_of, measured

TEXT = '''"""What it is."""

LIMIT = 3  # why
"""Of what."""


def first(values: list[int], limit: int = LIMIT) -> int:
    """Give one.

    Or none.
    """
    # A reason.
    return (
        values[0] if values and limit else 0
    )
'''


def test_code_is_what_is_no_blank_line_comment_or_docstring() -> None:
    assert code_lines(TEXT, ast.parse(TEXT)) == 5


def test_steps_and_settings_are_counted_by_themselves() -> None:
    shape = measured(
        [
            ("functions/ground/ground.py", TEXT),
            ("tests/unit/test_x.py", TEXT + "\n" * 900),
            ("layers/common/python/docstokg/settings.py", "class A:\n    a: int\n    b: str\n"),
        ]
    )
    assert shape.settings == 2
    assert shape.parameters_step == (2, "functions/ground/ground.py: first")
    assert shape.complex == shape.complex_step == (3, "functions/ground/ground.py: first")
    assert shape.longest_file == (15, "functions/ground/ground.py")
    assert shape.code == {"functions": 5, "tests": 5, "layers: root": 3}


def test_a_folder_that_moved_is_one_row() -> None:
    assert folder_of("local/docstokg_local/loading/readers.py") == "layers: loading"
    assert folder_of("layers/common/python/docstokg/loading/readers/obo.py") == "layers: loading"
