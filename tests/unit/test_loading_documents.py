"""Documents: every chunk is an exact stretch of the decoded file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.loading.given import GivenChunk
from docstokg.loading.readers.documents import (
    CHUNK_CHARACTERS,
    LONGEST_SENTENCE,
    document_chunks,
    find_headings,
    pack_sentences,
    read_document,
    slugify,
)
from docstokg.loading.rejects import Rejected


def chunks_of(path: Path, raw: bytes, doc_id: str = "guide.md") -> tuple[str, list[GivenChunk]]:
    path.write_bytes(raw)
    document = read_document(path, doc_id)
    return raw.decode(), list(document_chunks(document, path.name))


def test_front_matter_counts_in_offsets_and_becomes_fields_and_metadata(tmp_path):
    text, chunks = chunks_of(
        tmp_path / "guide.md",
        b"---\r\ndoc_id: field-guide\r\ntitle: A guide\r\nacl: [staff]\r\ntopics: plants\r\n"
        b"written: 2024-05-06\r\nnested: {a: [1, 2]}\r\n---\r\n# Lace\r\n\r\nIt grows.\r\n",
    )
    (chunk,) = chunks
    assert (chunk.id, chunk.doc_id, chunk.title) == ("field-guide#0", "field-guide", "A guide")
    assert (chunk.acl, chunk.topics) == (("staff",), ("plants",))
    assert chunk.metadata == {"written": "2024-05-06", "nested": {"a": [1, 2]}}
    assert (chunk.section, chunk.anchor, chunk.names) == ("Lace", "lace", ("Lace",))
    assert chunk.char_start == text.index("# Lace")
    assert text[chunk.char_start :].startswith(chunk.text)
    assert chunk.whole


def test_headings_cut_and_generic_ones_name_nothing(tmp_path):
    _, chunks = chunks_of(
        tmp_path / "guide.md",
        b"# Whales\n\nBig.\n\n## Introduction\n\nHello there.\n\n## Blue *whale*\n\nBlue.\n"
        b"```\n# no heading\n```\n\nOld style\n---------\n\nUnder it.\n",
    )
    assert [chunk.section for chunk in chunks] == [
        "Whales",
        "Introduction",
        "Blue whale",
        "Old style",
    ]
    assert [chunk.names for chunk in chunks] == [("Whales",), (), ("Blue whale",), ("Old style",)]
    assert {chunk.title for chunk in chunks} == {"Whales"}
    assert "# no heading" in chunks[2].text


def test_a_heading_over_nothing_makes_no_chunk(tmp_path):
    _, chunks = chunks_of(tmp_path / "guide.md", b"# Top\n\n## Below\n\nWords.\n")
    assert [chunk.section for chunk in chunks] == ["Below"]


def test_equal_headings_get_anchors_of_their_own():
    headings = find_headings("# Use\n\na\n\n# Use\n\nb\n")
    assert [heading.anchor for heading in headings] == ["use", "use-1"]
    assert slugify("What's `new` in 2.0?") == "whats-new-in-20"


def test_a_text_file_has_no_headings_and_its_relative_path_as_id(tmp_path):
    text, chunks = chunks_of(tmp_path / "a.txt", "# Not one. Sätze 😀 here.".encode(), "x/a.txt")
    assert [(chunk.doc_id, chunk.section, chunk.title) for chunk in chunks] == [
        ("x/a.txt", None, "")
    ]
    assert chunks[0].text == text


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"one\ntwo\n\xff\n", "line 3"),
        (b"a\n\0b", "NUL character in line 2"),
        (b"---\na: [1\n---\nx\n", "front matter is no YAML"),
        (b"---\n- 1\n---\nx\n", "no mapping"),
        (b"---\ndoc_id: [1]\n---\nx\n", "doc_id must be a string"),
        (b"---\nacl: [1]\n---\nx\n", "acl must be strings"),
        (b"---\na: .nan\n---\nx\n", "not finite"),
    ],
)
def test_documents_that_are_not_understood_are_refused(tmp_path, raw: bytes, reason: str):
    path = tmp_path / "bad.md"
    path.write_bytes(raw)
    with pytest.raises(Rejected, match=reason):
        read_document(path, "bad.md")


def test_a_rule_at_the_top_is_no_front_matter(tmp_path):
    text, chunks = chunks_of(tmp_path / "a.md", b"---\n\nWords after a rule.\n")
    assert chunks[-1].text.endswith("Words after a rule.")
    assert text[chunks[-1].char_start or 0 :].startswith(chunks[-1].text)


def test_giant_sentences_are_cut_at_white_space():
    text = "word " * 2000
    spans = pack_sentences(text)
    assert all(span.end - span.start <= LONGEST_SENTENCE for span in spans)
    assert "".join(text[a:b] for a, b in spans).replace(" ", "") == text.replace(" ", "")


PIECES = st.sampled_from(
    ["# Head\n", "## Two words\r\n", "A sentence. ", "Ende? ", "\n", "\n\n", "```\n", "é😀 ",
     "x" * 700 + ". ", "Title\n===\n", "- item\n", "---\n", "key: value\n", " "]
)  # fmt: skip


@given(st.lists(PIECES, max_size=30).map("".join))
def test_every_chunk_is_an_exact_stretch_in_order(text: str):
    from docstokg.loading.readers.documents import Document

    document = Document("d", text, 0, {}, {}, find_headings(text))
    last = 0
    for chunk in document_chunks(document, "d"):
        start = chunk.char_start
        assert start is not None and start >= last
        assert text[start : start + len(chunk.text)] == chunk.text
        assert chunk.text.strip() == chunk.text != ""
        assert len(chunk.text) <= max(CHUNK_CHARACTERS, LONGEST_SENTENCE)
        last = start + len(chunk.text)
