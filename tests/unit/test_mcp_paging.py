"""Pages of any JSON document join to the document, and each keeps its size."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstokg.contracts.envelope import Caller
from docstokg.errors import InvalidCursor
from docstokg_functions.mcp.cursor import Cursor, cursor_from, request_digest
from docstokg_functions.mcp.paging import START, NoSuchPosition, Position, page_of

KEYS = st.text("abc/~é", min_size=1, max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(max_size=400),
    lambda below: st.lists(below, max_size=6) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=25,
)
DOCUMENTS = st.dictionaries(st.sampled_from(["first", "second", "third"]), VALUES, max_size=3)
KEY = b"k" * 32
RUN = b"r" * 16


def shown(position: Position) -> str:
    return Cursor(b"f" * 8, RUN, position).sealed(b"q" * 8, KEY)


def pages_of(document: dict, max_bytes: int) -> list[dict]:
    pages, at = [], START
    while at is not None:
        page = page_of(document, at, max_bytes, shown)
        assert len(page.text.encode("utf-8")) <= max_bytes
        assert page.after is None or page.after != at
        pages.append(json.loads(page.text))
        assert pages[-1].pop("truncated") is (page.after is not None)
        cursor = pages[-1].pop("next_cursor")
        assert cursor == (None if page.after is None else shown(page.after))
        at = page.after
    return pages


def joined(pages: list[dict]) -> dict:
    """Join pages by what they say of themselves, as a client would."""
    whole: dict = {}
    for page in pages:
        pointer = page.pop("continues_at", None)
        path = [] if pointer is None else pointer.split("/")[1:]
        merge(whole, page, [part.replace("~1", "/").replace("~0", "~") for part in path])
    return whole


def merge(known, more, path: list[str]):
    if isinstance(known, dict):
        for key, value in more.items():
            if path and key == path[0] and key in known:
                known[key] = merge(known[key], value, path[1:])
            else:
                known[key] = value
        return known
    if isinstance(known, list):
        if path and int(path[0]) < len(known):
            known[-1] = merge(known[-1], more[0], path[1:])
            more = more[1:]
        return known + more
    return known + more


@settings(deadline=None, max_examples=60)
@given(DOCUMENTS, st.integers(400, 3000))
def test_pages_join_to_the_document(document, max_bytes) -> None:
    assert joined(pages_of(document, max_bytes)) == document


def test_a_text_too_long_for_a_page_is_cut_between_code_points() -> None:
    document = {"answer": "\U0001f600é" * 600, "rows": []}
    pages = pages_of(document, 400)
    assert "".join(page.get("answer", "") for page in pages) == document["answer"]
    assert all("�" not in page.get("answer", "") for page in pages)


def test_a_cursor_with_any_letter_changed_is_refused() -> None:
    sealed = Cursor(b"f" * 8, RUN, Position(7, 3)).sealed(b"q", KEY)
    for place, letter in enumerate(sealed):
        for other in "A_z":
            if other != letter:
                with pytest.raises(InvalidCursor):
                    cursor_from(sealed[:place] + other + sealed[place + 1 :], b"q", KEY)


def test_a_place_the_document_does_not_have_is_no_page() -> None:
    document = {"count": 3, "name": "abc"}
    for position in (Position(0, 1), Position(1, 3), Position(2), Position(9, 9)):
        with pytest.raises(NoSuchPosition):
            page_of(document, position, 400, shown)


@given(st.text(max_size=130))
def test_no_text_breaks_the_reader(text) -> None:
    with pytest.raises(InvalidCursor):
        cursor_from(text, b"q" * 8, KEY)


def test_requests_differ_by_tool_caller_rights_and_arguments_but_not_by_order() -> None:
    me = Caller(sub="me", namespaces=("a", "b"), groups=("g", "h"))
    one = request_digest("t", {"a": 1, "b": [1, 2]}, me)
    assert one == request_digest("t", {"b": [1, 2], "a": 1}, me)
    turned = Caller(sub="me", namespaces=("b", "a"), groups=("h", "g", "g"))
    assert one == request_digest("t", {"a": 1, "b": [1, 2]}, turned)
    callers = [
        me.model_copy(update=change)
        for change in ({"sub": "you"}, {"groups": ("g",)}, {"groups": ()}, {"namespaces": ("a",)})
    ]
    others = [
        request_digest("u", {"a": 1, "b": [1, 2]}, me),
        request_digest("t", {"a": 1, "b": [2, 1]}, me),
        request_digest("t", {"a": True, "b": [1, 2]}, me),
        *(request_digest("t", {"a": 1, "b": [1, 2]}, caller) for caller in callers),
    ]
    assert len({one, *others}) == 8
