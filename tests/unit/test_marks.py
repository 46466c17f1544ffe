"""Marks of each format: rendered, left out and counted, or kept as written."""

import pytest

from docstokg.adapters.conversion.formats import convert
from tests.unit.marks import FORMATS, RULES, Mark, file_of, marks

MARKS = marks()


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: f"{mark.mark}-{mark.format}")
def test_mark_is_rendered_counted_or_kept(mark: Mark) -> None:
    assert mark.rule in RULES
    if mark.rule == "does not exist":
        assert not mark.fragment
        return
    (outline,) = convert(f".{mark.format}", file_of(mark))
    assert mark.read in outline.text
    assert not mark.unread or mark.unread not in outline.text
    assert mark.note in " ".join(outline.notes)
    assert bool(mark.note) == (mark.rule == "left out and counted")


def test_table_has_each_mark_and_format() -> None:
    names = {mark.mark for mark in MARKS}
    assert sorted((m.mark, m.format) for m in MARKS) == sorted(
        {(name, suffix) for name in names for suffix in FORMATS}
    )
