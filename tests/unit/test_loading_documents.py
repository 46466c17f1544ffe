"""Documents: every chunk is an exact stretch of the decoded file."""

import gzip
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstokg.adapters.conversion.convert_markdown import outline_markdown
from docstokg.adapters.conversion.formats import convert, installed_versions
from docstokg.adapters.onnx.wordpieces import EstimatedPieces, WordPieces
from docstokg.contracts.outline import Outline
from docstokg.loading.names.candidates import Labels
from docstokg.loading.read.chunking import ENCODER_PIECES
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.records import encoder_text
from docstokg.loading.readers.documents import (
    Document,
    document_chunks,
    heading_anchors,
    read_documents,
    slugify,
)
from docstokg.loading.readers.plain_text import outline_text

PIECES = WordPieces()


class HereConverter:
    """The converters in this process: the child that runs them otherwise has its own tests."""

    versions = installed_versions()

    def convert(self, suffix: str, raw: bytes) -> tuple[Outline, ...]:
        return convert(suffix, raw)


HERE = HereConverter()


def read_file(path: Path, doc_id: str) -> Document:
    (document,) = read_documents(path, doc_id, HERE)
    return document


def chunks_of(path: Path, raw: bytes, doc_id: str = "guide.md") -> tuple[str, list[RawChunk]]:
    path.write_bytes(raw)
    document = read_file(path, doc_id)
    return raw.decode(), list(document_chunks(document, path.name, PIECES))


def cut(text: str, name: str = "d.md") -> list[RawChunk]:
    outline = outline_markdown(text) if name.endswith(".md") else outline_text(text)
    return list(document_chunks(Document("d", outline, 0, {}, {}), name, PIECES))


def pieces(chunk: RawChunk) -> int:
    return len(PIECES.starts(encoder_text(chunk))) + 2


def check_stretches(text: str, chunks: list[RawChunk]) -> None:
    """Every chunk is a stretch of at most the encoder's length, in order."""
    last = -1
    for chunk in chunks:
        start = chunk.char_start
        assert start is not None and start > last
        assert text[start : start + len(chunk.text)] == chunk.text
        assert chunk.text.strip() == chunk.text != ""
        assert pieces(chunk) <= ENCODER_PIECES
        last = start


def test_front_matter_counts_in_offsets_and_becomes_metadata(tmp_path):
    text, chunks = chunks_of(
        tmp_path / "guide.md",
        b"---\r\ndoc_id: field-guide\r\ntitle: A guide\r\nacl: [staff]\r\ntopics: plants\r\n"
        b"written: 2024-05-06\r\nnested: {a: [1, 2]}\r\n---\r\n# Lace\r\n\r\nIt grows.\r\n",
    )
    (chunk,) = chunks
    assert (chunk.id, chunk.doc_id, chunk.title) == ("field-guide#0", "field-guide", "A guide")
    assert (chunk.acl, chunk.topics) == (("staff",), ("plants",))
    assert chunk.metadata == {"written": "2024-05-06", "nested": {"a": [1, 2]}}
    assert (chunk.section, chunk.anchor) == ("Lace", "lace")
    assert chunk.char_start == text.index("# Lace")
    assert text[chunk.char_start :].startswith(chunk.text)
    assert chunk.whole


@pytest.mark.parametrize(
    ("front", "summary"),
    [
        ("title: Removal\ndescription: Cleaning the slate\nowner: me", "title: Removal\n{}"),
        ("description: Cleaning the slate\ntitle: Removal", "{}\ntitle: Removal"),
        ("title: Removal\nsecret: s3\ndescription: Cleaning the slate\nowner: me", "{}"),
        ("title: Removal\nowner: me", None),
    ],
)
def test_front_matter_about_the_document_is_a_stretch(tmp_path, front, summary):
    text, chunks = chunks_of(tmp_path / "a.md", f"---\n{front}\n---\nIt is gone.\n".encode())
    check_stretches(text, chunks)
    bodies = [chunk.text for chunk in chunks if chunk.text != "It is gone."]
    assert bodies == (
        [] if summary is None else [summary.format("description: Cleaning the slate")]
    )
    assert {chunk.title for chunk in chunks} == {"Removal"}


def test_a_long_heading_takes_room_in_its_chunk():
    above = "on and on it goes " * 3 + "again and again it goes on and on " * 4
    text = f"# T\n\n## {above}\n\n### {'below ' * 20}\n\n" + "It goes on and on. " * 120
    check_stretches(text, cut(text))


def test_headings_cut_and_generic_ones_name_nothing(tmp_path):
    _, chunks = chunks_of(
        tmp_path / "guide.md",
        b"# Whales\n\nBig.\n\n## Introduction\n\nHello there.\n\n## Blue *whale*\n\nBlue.\n"
        b"```\n# no heading\n```\n\nOld style\n---------\n\nUnder it.\n",
    )
    sections = [chunk.section for chunk in chunks]
    assert sections == ["Whales", "Introduction", "Blue whale", "Old style"]
    assert list(map(Labels().heading, sections)) == ["Whales", None, "Blue whale", "Old style"]
    assert {chunk.title for chunk in chunks} == {"Whales"}
    assert "# no heading" in chunks[2].text


def test_a_heading_over_nothing_makes_no_chunk(tmp_path):
    _, chunks = chunks_of(tmp_path / "guide.md", b"# Top\n\n## Below\n\nWords.\n\n## Rule\n\n---\n")
    assert [chunk.section for chunk in chunks] == ["Below"]


def test_equal_headings_get_anchors_of_their_own():
    outline = outline_markdown("# Use\n\na\n\n# Use\n\nb\n")
    assert list(heading_anchors(outline.blocks).values()) == ["use", "use-1"]
    assert slugify("What's `new` in 2.0?") == "whats-new-in-20"


def test_only_headings_above_the_text_are_added():
    body = "It says so and so, again and again. " * 40
    chunks = cut(f"# npm\n\n## Options\n\n### Depth\n\n{body}\n")
    assert [chunk.headings for chunk in chunks[:2]] == [("Options",), ("Options", "Depth")]
    assert chunks[0].text.startswith("### Depth")
    assert {chunk.title for chunk in chunks} == {"npm"}


def test_an_untitled_document_is_known_by_its_name():
    assert cut("Just words.", "git-reset.md")[0].headings == ("git-reset",)


@pytest.mark.parametrize("name", ["d.md", f"{'a-long-name-' * 12}.md"])
def test_the_document_name_takes_room_in_every_chunk(name: str):
    text = "## Two words\n\n" + "It goes on and on. " * 120
    chunks = cut(text, name)
    check_stretches(text, chunks)
    assert len(chunks) > 1
    assert {chunk.headings[0] for chunk in chunks} == {Path(name).stem}


@pytest.mark.parametrize(
    "block",
    [
        "- one thing\n- another thing\n  - below it\n- a third",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |",
        "```sh\nnpm ci\n\n\nnpm test\n```",
        "1. First do this.\n\n   Then wait.\n\n2. Then do that.",
    ],
)
def test_lists_tables_and_code_that_fit_stay_whole(block: str):
    words = "It says so and so, again and again. " * 20
    for lead in range(0, len(words), 60):
        chunks = cut(f"# T\n\n{words[:lead]}\n\n{block}\n\n{words}\n")
        assert sum(block in chunk.text for chunk in chunks) == 1, lead


def test_long_lists_and_tables_are_cut_between_entries():
    text = "# T\n\n" + "".join(f"- item number {n} says a little more.\n" for n in range(90))
    text += "\n| n | words |\n|---|---|\n" + "".join(f"| {n} | some words |\n" for n in range(90))
    chunks = cut(text)
    check_stretches(text, chunks)
    assert len(chunks) > 4
    for chunk in chunks[1:]:
        assert chunk.text.startswith(("- item", "| "))
    joined = "\n".join(chunk.text for chunk in chunks)
    assert all(f"- item number {n} says a little more." in joined for n in range(90))
    assert all(f"| {n} | some words |" in joined for n in range(90))


def test_a_long_description_is_cut_like_any_text(tmp_path: Path):
    sentences = " ".join(
        f"It also explains how valve {i} is opened, cleaned and closed." for i in range(40)
    )
    front = f"---\ntitle: Valves\ndescription: {sentences}\n---\n"
    text, chunks = chunks_of(tmp_path / "guide.md", f"{front}\n# Valves\n\nBody.\n".encode())
    check_stretches(text, chunks)
    front_chunks = [chunk for chunk in chunks if (chunk.char_start or 0) < len(front)]
    assert len(front_chunks) > 1
    assert front_chunks[0].text.startswith("title: Valves")
    assert front_chunks[-1].text.endswith("valve 39 is opened, cleaned and closed.")


def test_an_option_names_every_part_of_its_description():
    body = "This tells what the option does, at some length. " * 3
    long = "".join(f"              Paragraph {n}. {body}\n\n" for n in range(12))
    text = (
        "CURL(1)                     Curl Manual                      CURL(1)\n\nNAME\n"
        "       curl - transfer a URL\n\nOPTIONS\n"
        f"       -j, --junk\n              {body}\n\n       -k, --insecure\n              {body}\n"
        f"              {body}\n\n       --data <data>\n{long}SEE ALSO\n       wget(1)\n"
    )
    chunks = cut(text, "curl.txt")
    check_stretches(text, chunks)
    assert {chunk.title for chunk in chunks} == {"curl(1)"}
    (holder,) = [chunk for chunk in chunks if "--insecure" in chunk.text]
    assert holder.text[holder.text.index("--insecure") :].count("at some length") >= 6
    assert holder.section == "OPTIONS"
    data = [chunk for chunk in chunks if "Paragraph" in chunk.text]
    assert len(data) > 1
    assert all("--data" in chunk.text or "--data <data>" in chunk.headings for chunk in data)
    assert chunks[-1].section == "SEE ALSO"


def test_a_text_file_has_its_path_as_id(tmp_path):
    text, chunks = chunks_of(tmp_path / "a.txt", "# Not one. Sätze 😀 here.".encode(), "x/a.txt")
    (chunk,) = chunks
    assert (chunk.doc_id, chunk.section, chunk.title) == ("x/a.txt", None, "")
    assert chunk.text == text


def test_an_announcement_shares_the_chunk_of_its_text():
    words = " ".join(f"Pike number {at} swims." for at in range(30))
    for ending in ("Set this value:", "LineMax=", "May I fish here?"):
        chunks = cut(f"{words}\n\n{ending}\n\n{words}\n", "a.txt")
        (holder,) = [chunk.text for chunk in chunks if ending in chunk.text]
        assert holder.startswith(ending)
        assert holder.endswith(words)


def test_one_line_in_capitals_is_no_heading():
    chunks = cut("IMPORTANT\n    read this first.\n\nThen go on.", "a.txt")
    assert {chunk.section for chunk in chunks} == {None}


def test_an_old_text_keeps_its_year_and_accents(tmp_path):
    path = tmp_path / "old.txt"
    path.write_bytes("Der Bär schläft. Café, 1998.".encode("latin-1"))
    document = read_file(path, "old.txt")
    assert document.text == "Der Bär schläft. Café, 1998."
    assert document.outline.encoding == "cp1252"


@pytest.mark.parametrize("name", ["a.info", "a.info.gz"])
def test_info_index_and_image_marks_are_left_out(tmp_path, name: str):
    raw = b"Fish.\n" * 99 + b'Menu\n\0\b[index\0\b]\n* Fish.\n\0\b[image src="a.png"\0\b]\nEnd.\n'
    path = tmp_path / name
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    assert read_file(path, name).text[594:] == "Menu\n\n* Fish.\n\nEnd.\n"


def test_a_rule_on_top_is_no_front_matter(tmp_path):
    text, chunks = chunks_of(tmp_path / "a.md", b"---\n\nWords after a rule.\n")
    assert chunks[-1].text.endswith("Words after a rule.")
    assert text[chunks[-1].char_start or 0 :].startswith(chunks[-1].text)


def test_giant_sentences_are_cut_between_words_and_overlap():
    text = " ".join(f"w{n}" for n in range(2000))
    chunks = cut(text, "d.txt")
    check_stretches(text, chunks)
    words = [word for chunk in chunks for word in chunk.text.split()]
    assert set(words) == set(text.split())
    assert len(chunks) < len(words) - 2000 < 30 * len(chunks)


def test_a_text_without_a_space_is_cut_too():
    text = "QUJD" * 20_000
    chunks = cut(text, "d.txt")
    check_stretches(text, chunks)
    assert sum(len(chunk.text) for chunk in chunks) >= len(text)


@pytest.mark.parametrize(
    "text",
    [
        "# " + "[" * 200_000,
        "# " + "[a](" * 50_000,
        "> " * 5_000 + "deep",
        "- " * 5_000 + "deep",
        "\n" * 300_000 + "x",
        "| a " * 20_000 + "|\n" + "|---" * 20_000 + "|\n",
        "*a **a " * 30_000,
        "<!-- " * 20_000,
        "".join(f"{' ' * n}x\n" for n in range(600)),
    ],
    ids=["brackets", "links", "quotes", "lists", "blank", "columns", "marks", "comments", "steps"],
)
@pytest.mark.parametrize("name", ["d.md", "d.txt"])
def test_hostile_texts_take_seconds_at_most(text: str, name: str):
    started = time.process_time()
    check_stretches(text, cut(text, name))
    assert time.process_time() - started < 10


PARTS = st.sampled_from(
    [
        *("# Head\n", "## Two words\r\n", "A sentence. ", "Ende? ", "\n", "\n\n", "```\n", "é😀 "),
        *("x" * 700 + ". ", "Title\n===\n", "- item\n", "---\n", "key: value\n", " ", "\r"),
        *("| a |\n", "    deep ", "<!-- no -->\n", "[a]: http://b\n", "TITLE\n", "> quote\n"),
        *("1. one\n", "It goes on and on. " * 60),
    ]
)
TEXTS, NAMES = st.lists(PARTS, max_size=30).map("".join), st.sampled_from(["d.md", "d.txt"])


@given(TEXTS, NAMES)
def test_every_chunk_is_an_exact_stretch_in_order(text: str, name: str):
    check_stretches(text, cut(text, name))


# A line above a rule is a heading, and a heading over nothing is left out.
FLAT = PARTS.filter(lambda part: part not in ("Title\n===\n", "---\n"))


@given(st.lists(FLAT, max_size=30).map("".join), NAMES)
def test_no_sentence_is_lost(text: str, name: str):
    joined_text = "".join("".join(chunk.text.split()) for chunk in cut(text, name))
    assert joined_text.count("Asentence.") >= text.count("A sentence.")
    assert joined_text.count("onandon.") >= text.count("on and on.")


def test_the_estimate_counts_no_less_than_the_vocabulary():
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))
    )
    real, guessed = PIECES.starts(text), EstimatedPieces().starts(text)
    for first in range(0, len(real) - 250, 250):
        low, high = real[first], real[first + 250]
        assert sum(low <= place < high for place in guessed) >= 250


def test_converted_blocks_keep_their_text():
    outline = outline_markdown("# A\r\rb\r\n\r\nc")
    assert [outline.text[b.start : b.end].strip() for b in outline.blocks] == ["# A", "b", "c"]
