"""Formats: converted texts, limits, and messages for rejected files."""

import cmath
import gzip
import io
import json
import math
import os
import random
import re
import socket
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import docx
import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, NameObject, read_object

from benchmarks.scanned import pdf as pages_pdf
from benchmarks.scanned import scanned
from docstokg.adapters.conversion import child as conversion_child
from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.domain.layout import boxes, certainty, unpacked
from docstokg.errors import LoadError
from docstokg.loading.read.rejects import Rejected, RejectLog
from docstokg.loading.read.sources import find_files
from tests.embedded_store import EmbeddedStore
from tests.strange_inputs import paged, saved
from tests.unit.test_office_formats import child, convert_file, opened, packed, paragraph, run, word

__all__ = ["child", "convert_file"]


def pdf(pages: list[str]) -> bytes:
    """A PDF with a text layer: one line of text a page."""
    return paged([[(72, 720, page)] for page in pages], size=12)


def docx_file() -> bytes:
    document = docx.Document()
    document.add_heading("Handbook", 1)
    document.add_paragraph("Everyone has 28 days.")
    document.add_heading("Leave", 2)
    document.add_paragraph("one", style="List Bullet")
    document.add_paragraph("two", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for place, words in enumerate(("who", "days", "all", "28")):
        table.rows[place // 2].cells[place % 2].text = words
    return saved(document.save)


def test_navigation_to_other_pages_is_no_page_text(convert_file):
    page = b"""<html><body>
    <table class="nav"><tr><td>Manual</td><td><a href="u.html">Up</a></td></tr></table>
    <div role="navigation"><ul><li><a href="a.html">Assertions</a></li></ul></div>
    <div class="header"><p>Next: <a rel="next" href="n.html">Threads</a>,
      Previous: <a rel="prev" href="p.html">Closures</a></p></div>
    <form><input name="q"><input type="submit" value="Search"></form>
    <form id="page"><h1>Locks</h1><p>A lock is taken once.
      <a rel="next" href="n.html">Threads</a> come next.</p>
    <ul><li class="breadcrumb">Home</li><li>Locks are counted.</li></ul></form>
    </body></html>"""
    text, _ = convert_file("locks.html", page)
    article = "Locks A lock is taken once. Threads come next. - Locks are counted."
    assert " ".join(text.split()) == article


def test_html_text_keeps_headings_lists_options_and_tables(convert_file):
    text, chunks = convert_file(
        "a.html",
        b"<title>Page</title><nav>Home</nav><main><h1>tar</h1><p>An <b>ar</b>chiver.</p>"
        b"<h2 id=opts>Options</h2><dl><dt>-x<dd>Extract files.</dl><ul><li>a<ul><li>b</ul></ul>"
        b"<table><tr><th>n<th>v<tr><td>1<td>2</table><pre>tar -x\n  -f</pre></main>"
        b"<script>alert(1)</script><footer>End</footer>",
    )
    assert "An archiver." in text
    assert "-x\n    Extract files." in text
    assert "- a\n  - b" in text
    assert "n: 1; v: 2" in text
    assert "\n    tar -x\n      -f\n" in text
    assert not {"Home", "alert", "End"} & set(text.replace("(", " ").split())
    assert [(c.section, c.anchor, c.title) for c in chunks] == [
        ("tar", "tar", "tar"),
        ("Options", "opts", "tar"),
    ]


def test_html_code_in_lists_and_descriptions_keeps_lines(convert_file):
    """It was one line with the words around it, and a class's methods were one with its own."""
    page = b"""<h1>T</h1><ol><li>Convert:<pre>
a := 1
  b()</pre>as above.<ul><li>below</ul><li><p>Or</p><div class="code"><pre>x = 2</pre></div></ol>
<dl><dt>class Foo(x) &para;</dt><dd><p>A <b>foo</b>.</p><p>It is used.</p><pre>Foo(1)
Foo(2)</pre><dl><dt>bar()<dd><p>Do bar.</p><dt>baz()<dd></dl><ul><li>one<li>two</ul>After.</dl>"""
    text, _ = convert_file("t.html", page)
    assert text.strip().split("\n\n") == [
        "T",
        "1. Convert:",
        "    a := 1\n      b()",
        "  as above.\n  - below\n2. Or",
        "    x = 2",
        "class Foo(x)\n    A foo. It is used.",
        "    Foo(1)\n    Foo(2)",
        "bar()\n    Do bar.",
        "baz()",
        "- one\n- two",
        "After.",
    ]


def test_html_code_is_found_in_any_container(convert_file):
    page = (
        b"<dl><dt>a<dd>A.<dd>B.<pre>b\n  c</pre></dl><ul><li>d<x-y><pre>e</pre><pre>f</pre></x-y>"
    )
    page += b"<ul><li>g" * 20 + b"<pre>h</pre>"
    text, _ = convert_file("t.html", page)
    parts = text.strip("\n").split("\n\n")
    assert parts[:6] == ["a\n    A.", "B.", "    b\n      c", "- d", "    e", "    f"]
    assert parts[6].startswith("  - g\n    - g")
    assert parts[7] == " " * 16 + "h"


def test_rst_keeps_its_text_and_inserts_nothing(convert_file, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret", "utf-8")
    source = (
        "=====\nCMake\n=====\n\nIt builds.\n\nSub *one*\n---------\n\n-k\n   Goes on.\n\n"
        f".. include:: {secret}\n\n.. raw:: html\n   :file: {secret}\n\n.. toctree::\n\n   x\n"
    )
    text, chunks = convert_file("a.rst", source.encode())
    assert text == source
    assert [(c.section, c.headings) for c in chunks] == [("CMake", ()), ("Sub one", ())]
    assert "the secret" not in "".join(c.text for c in chunks)
    assert chunks[0].text.startswith("=====\nCMake\n=====")


def test_rst_with_any_foreign_directive_is_read(convert_file):
    source = (
        "add_test\n--------\n\nAdds :command:`add_test`.\n\n.. versionadded:: 3.1\n\n"
        ".. code-block:: cmake\n\n  add_test(a)\n\n.. code-block:: c++\n\n  int a;\n\n|x| `y`__\n"
        "\nYq\n--\n\n.. image:: a.png\n\n.. figure:: b.png\n   :figwidth: image\n\n.. contents::\n"
        "\n.. topic:: c\n\n   d\n\n.. target-notes::\n\n.. list-table::\n\n   * - e\n"
        "\n.. math:: f\n"
        "\n.. header:: g\n\n.. include:: /etc/hostname\n\nIt reads YAML.\n"
    )
    _, chunks = convert_file("a.rst", source.encode())
    assert {c.section for c in chunks} == {"add_test", "Yq"}
    assert "int a;" in chunks[0].text and "It reads YAML." in chunks[-1].text


def test_docx_headings_lists_and_tables(convert_file):
    text, chunks = convert_file("a.docx", docx_file())
    assert [c.section for c in chunks] == ["Handbook", "Leave"]
    assert "- one\n- two" in text
    assert "who: all; days: 28" in text
    assert {c.title for c in chunks} == {"Handbook"}


def test_pdf_table_rows_have_places_and_a_drawing(child, convert_file):
    cells = [("Part", "Weight"), ("Seal", "4 kg"), ("Bolt", "7 kg")]
    lines = "".join(f"60 {y} m 260 {y} l S " for y in (640, 660, 680, 700))
    lines += "".join(f"{x} 640 m {x} 700 l S " for x in (60, 160, 260))
    words = "".join(
        f"BT /F1 10 Tf 1 0 0 1 {70 + 100 * at} {685 - 20 * row} Tm ({word}) Tj ET "
        for row, pair in enumerate(cells)
        for at, word in enumerate(pair)
    )
    writer = PdfWriter(clone_from=io.BytesIO(pdf(["none"])))
    stream = DecodedStreamObject()
    stream.set_data((lines + words).encode())
    writer.pages[0][NameObject("/Contents")] = writer._add_object(stream)
    raw = saved(writer.write)
    _, (chunk,) = convert_file("a.pdf", raw)
    assert chunk.text == "Part: Seal; Weight: 4 kg.\n\nPart: Bolt; Weight: 7 kg."
    at = chunk.text.index("Part: Bolt")
    (box,) = boxes(unpacked(chunk.layout, at, len(chunk.text)), 1)
    height = float(writer.pages[0].mediabox.height)
    assert (box.x0, box.y0 < height - 645 < box.y1) == (pytest.approx(70, abs=1), True)
    assert box.y0 > height - 660 and box.x1 < 200
    assert child.draw(raw, 1).startswith(b"\x89PNG")
    with pytest.raises(LoadError, match="1 pages"):
        child.draw(raw, 2)


@pytest.mark.slow
def test_scanned_pages_have_places_and_confidence(convert_file):
    lines = ["The pump is oiled every fourth week.", "", "Its valve is closed by hand."]
    picture = scanned(lines, "Helvetica", random.Random(2)), "XObject", "595 0 0 842 0 0 cm /X Do"
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    page = font, "Font", "BT /X 11 Tf 60 700 Td (Told.) Tj ET"
    raw = pages_pdf([page, picture])
    _, (first, chunk) = convert_file("a.pdf", raw)
    assert (first.text, first.page, chunk.page) == ("Told.", 1, 2)
    assert chunk.text.split() == " ".join(lines).split()
    places = unpacked(chunk.layout, at := chunk.text.index("valve"), at + 5)
    assert 0.8 < certainty(places) <= 1
    (box,) = boxes(places, 2)
    turned = cmath.rect(1, -math.radians(random.Random(2).uniform(-3, 3)))
    middle = 297.5 + 421j + (85 + 87j - 297.5 - 421j) * turned
    assert abs(complex(box.x0 + box.x1, box.y0 + box.y1) / 2 - middle) < 4
    assert box.x1 - box.x0 < 30 and box.y1 - box.y0 < 20
    limited = ChildConverter(scanned=1)
    (outline,) = limited.convert(".pdf", pages_pdf([page, picture, picture, picture]))
    assert outline.text.split() == ["Told.", *" ".join(lines).split()] and outline.scanned == (3, 4)
    limited.close()
    without = ChildConverter(scanned=0)
    assert [outline.scanned for outline in without.convert(".pdf", raw)] == [(2,)]
    with pytest.raises(LoadError, match=r"docstokg\[ocr\]"):
        without.convert(".pdf", pages_pdf([picture]))
    without.close()


CMAP = b"""/CIDInit /ProcSet findresource begin begincmap
1 begincodespacerange <00> <FF> endcodespacerange
1 beginbfrange <41> <5A> <0061> endbfrange
1 beginbfchar <21> <03A9> endbfchar
endcmap end"""


def test_a_pdf_as_programs_write_it_is_read():
    """Packed streams, a font with a table of its own: a fresh process meets them once limited."""
    writer = PdfWriter(clone_from=io.BytesIO(pdf(["OIL THE PUMP!"])))
    table = DecodedStreamObject()
    table.set_data(CMAP)
    for page in writer.pages:
        page.compress_content_streams()
        font = page["/Resources"]["/Font"]["/F1"]
        font[NameObject("/ToUnicode")] = writer._add_object(table.flate_encode())
    fresh = ChildConverter()
    (outline,) = fresh.convert(".pdf", saved(writer.write))
    fresh.close()
    assert outline.text.strip() == "oil the pumpΩ"


def blank_font() -> bytes:
    """A TrueType font with one empty glyph."""
    tables = {
        b"glyf": bytes(4),
        b"head": struct.pack(
            ">3I4sHHQQ4h2H3h", 0x10000, 0, 0, b"_\x0f<\xf5", 0, 1000, 0, 0, *[0] * 9
        ),
        b"hhea": struct.pack(">I15hH", 0x10000, 1000, 0, 0, 500, *[0] * 11, 1),
        b"hmtx": struct.pack(">Hh", 500, 0),
        b"loca": bytes(4),
        b"maxp": struct.pack(">I14H", 0x10000, 1, *[0] * 13),
    }
    place, index = 12 + 16 * len(tables), b""
    for name, table in tables.items():
        index += struct.pack(">4s3I", name, 0, place, len(table))
        place += len(table)
    return struct.pack(">I4H", 0x10000, len(tables), 0, 0, 0) + index + b"".join(tables.values())


def test_digits_without_shapes_are_not_lowered(convert_file):
    """Programs for scans write their text in a font of empty glyphs."""
    writer = PdfWriter(clone_from=io.BytesIO(pdf(["Sum 348 crowns"])))
    table, program = DecodedStreamObject(), DecodedStreamObject()
    table.set_data(CMAP.replace(b"<41> <5A> <0061>", b"<21> <7E> <0021>"))
    program.set_data(blank_font())
    font = writer.pages[0]["/Resources"]["/Font"]["/F1"]
    written = (
        b"<< /Subtype /TrueType /FirstChar 32 /LastChar 126 /Widths [%s] /FontDescriptor <<"
        b" /Type /FontDescriptor /FontName /F1 /Flags 4 /FontBBox [0 0 500 1000] >> >>"
    )
    font.update(read_object(io.BytesIO(written % (b"500 " * 95)), writer))
    font["/FontDescriptor"][NameObject("/FontFile2")] = writer._add_object(program)
    font[NameObject("/ToUnicode")] = writer._add_object(table)
    text, _ = convert_file("scan.pdf", saved(writer.write))
    assert text.strip() == "Sum 348 crowns"


def test_letters_of_turned_text_are_not_lowered(convert_file):
    turned = pdf(["Drill) Tj 0 1 -1 0 200 300 Tm (Tighten the gland"])
    text, _ = convert_file("turned.pdf", turned)
    assert text.split() == ["Drill", "Tighten", "the", "gland"]


def test_csv_rows_are_passages_with_column_names(convert_file):
    _, chunks = convert_file("a.csv", "Stadt;Höhe\nUlm;478\nBonn;60\n".encode("cp1252"))
    assert [c.text for c in chunks] == ["Stadt: Ulm\nHöhe: 478", "Stadt: Bonn\nHöhe: 60"]


def test_a_notebook_is_its_cells(convert_file):
    book = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Fit\n", "\n", "Why it fits."]},
            {"cell_type": "code", "source": "1 + 1", "outputs": [{"data": {"text/plain": "2"}}]},
        ]
    }
    text, chunks = convert_file("a.ipynb", json.dumps(book).encode())
    assert text == "# Fit\n\nWhy it fits.\n\n1 + 1\nOutput: 2\n\n"
    assert [(c.section, c.title) for c in chunks] == [("Fit", "Fit")]


def test_json_documents_and_other_json(child, convert_file, tmp_path):
    rows = [{"text": "One.", "doc_id": "x", "acl": ["hr"], "by": "me"}, {"text": "Two."}]
    first, two = opened(child, tmp_path / "a.json", json.dumps(rows).encode())
    assert (first.doc_id, first.fields["acl"], first.metadata) == ("x", ("hr",), {"by": "me"})
    assert (two.doc_id, two.text) == ("a.json/1", "Two.")
    text, _ = convert_file("a.json", b'{"menu": {"items": ["tea", "milk"], "open": true}}')
    assert text == "menu.items: tea, milk\nmenu.open: true\n\n"


def test_values_of_one_json_object_are_a_record(convert_file):
    place = {"depot": "Veska", "head": {"name": "Ivo", "desk": 4}, "bays": [{"no": 1}, {"no": 2}]}
    text, _ = convert_file("a.json", json.dumps(place).encode())
    assert text == "depot: Veska\nhead.name: Ivo\nhead.desk: 4\n\nbays.no: 1\n\nbays.no: 2\n\n"
    options = {"wait": {"value": 3, "unit": "ms"}, "tries": {"value": 9, "unit": ""}}
    text, _ = convert_file("b.json", json.dumps(options).encode())
    assert text == "wait.value: 3\nwait.unit: ms\n\ntries.value: 9\n\n"


def test_json_lines_are_records(child, convert_file, tmp_path):
    raw = b'\xef\xbb\xbf{"key": "T-1", "status": "open"}\r\n\n{"key": "T-2", "status": "shut"}\n'
    text, _ = convert_file("log.jsonl", raw)
    assert text.split("\n\n")[:2] == ["key: T-1\nstatus: open", "key: T-2\nstatus: shut"]
    raw = b'{"text": "One."}\n{"text": "Two."}'
    documents = opened(child, tmp_path / "notes.ndjson", raw)
    assert [document.text for document in documents] == ["One.", "Two."]


def test_a_docx_without_styles_with_huge_column_spans(convert_file):
    cell = "<w:tc><w:tcPr>{}</w:tcPr>{}</w:tc>".format
    wide = cell("<w:gridSpan w:val='1000000'/>", paragraph(run("who")))
    row = f"<w:tr>{wide}{cell('', paragraph(run('days')))}</w:tr>"
    body = f"{paragraph(run('Plain words.'))}<w:tbl>{row * 300}</w:tbl>"
    text, _ = convert_file("a.docx", word(body))
    assert text.startswith("Plain words.")
    assert text.count("who") == text.count("days") >= 299


ENTITIES = "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
EXPANDING = f'<!DOCTYPE d [<!ENTITY l0 "ha">{ENTITIES}]>'
OUTSIDE = '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize(
    ("name", "raw", "reason"),
    [
        ("a.pdf", b"%PDF-1.7 nothing", "not a readable PDF"),
        ("a.pdf", pdf([""]), "no text layer"),
        ("a.docx", b"PK\x03\x04 broken", "not a valid DOCX"),
        ("a.docx", word("</w:body>"), "not a valid DOCX"),
        ("a.ipynb", b"[]", "no cells"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b" \n", "contains no text"),
        ("a.jsonl", b'{"a": 1}\n\n{"a": }\n', "in line 3"),
        ("a.jsonl", b'{"doc_id": "a", "sha256": "", "named": true}', "load the .zip"),
        ("a.json", b"[" * 100_000, "not JSON"),
        ("a.json", b'{"a":' * 250 + b"1" + b"}" * 250, "nested deeper"),
        ("a.json", b'{"text": "x", "acl": "all"}', "acl"),
        ("a.json", b'{"text": "x", "metadata": {"y": NaN}}', "NaN is not a JSON number"),
        ("a.json", b'{"text": "x", "metadata": {"y": 1e999}}', "too large"),
        ("a.html", b"<div>" * 5_000 + b"x", "nested deeper"),
        ("a.csv", b"", "no rows"),
        ("a.txt", b"\x89PNG\r\n\x1a\n\0\0\0", "NUL"),
        ("a.md", b"one\n\xff\0", "NUL"),
        ("a.md", b"a\n\0b", "NUL character in line 2"),
        ("a.md", bytes(range(1, 256)) * 9, "control characters"),
        ("a.md", b"\x81\x01" * 9, "control characters"),
        ("a.md", b"Only a byte that no Western text has: \x81", "unknown text encoding"),
        ("a.md", b"---\ndoc_id: [1]\n---\nx\n", "doc_id must be a string"),
        ("a.md", b"---\ndoc_id: ../etc\n---\nx\n", "doc_id must"),
        ("a.md", b"---\ndoc_id: %s\n---\nx\n" % (b"a" * 600), "doc_id must"),
        ("a.md", b'---\ndoc_id: ""\n---\nx\n', "doc_id must"),
        ("a.md", b"---\nacl: [1]\n---\nx\n", "acl must be strings"),
        ("a.xlsx", b"PK\x03\x04 broken", "not a valid XLSX"),
        ("a.xlsx", packed({"x": "y"}), "not a valid XLSX"),
        ("a.pptx", packed({"_rels/.rels": "<a"}), "not a valid PPTX"),
        ("a.odt", packed({"x": "y"}), "not a valid OpenDocument"),
        ("a.epub", packed({"x": "y"}), "not a valid EPUB"),
        ("a.eml", b"\0\0\0", "not an e-mail"),
        ("a.mbox", b"Hello", "not a mailbox"),
        ("a.rtf", b"Hello", "not an RTF file"),
        ("a.odt", packed({"content.xml": "<a" * 3}), "not a valid OpenDocument"),
        ("a.odt", packed({"content.xml": "<a>" * 5_000}), "nested deeper"),
        ("a.odt", packed({"content.xml": f"{EXPANDING}<d>&l9;</d>"}), "entities"),
        ("a.odt", packed({"content.xml": f"{OUTSIDE}<d>&x;</d>"}), "entities"),
        ("a.gz", gzip.compress(b"\0" * (201 << 20), 9), "unpacks to more than"),
        ("a.zip", packed({f"{n}.txt": "x" for n in range(1_001)}), "more than 1,000"),
        ("a.js", b"x" * 6_000, "minified or generated"),
        ("a.7", b"\x7fELF\0", "NUL"),
    ],
)  # fmt: skip
def test_unreadable_files_are_rejected_with_a_reason(
    child, tmp_path, name: str, raw: bytes, reason: str
):
    with pytest.raises(Rejected, match=reason):
        opened(child, tmp_path / name, raw)


def test_a_bomb_is_not_unpacked(child, tmp_path):
    raw = packed({"word/document.xml": b" " * (201 * 1024 * 1024)})
    with pytest.raises(LoadError, match="unpacks to"):
        child.convert(".docx", raw)


def test_an_encrypted_pdf_is_said_to_be(child):
    writer = PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret", algorithm="RC4-128")
    with pytest.raises(LoadError, match="encrypted"):
        child.convert(".pdf", saved(writer.write))


def _never_ends() -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (lambda: sys.exit(10), "failed"),
        (lambda: Path("/etc/hostname").read_text("utf-8"), "tried to open"),
        (lambda: socket.create_connection(("127.0.0.1", 9), 1), "tried to open"),
        (_never_ends, "longer than 1 s"),
        (lambda: "x" * 900_000_000, "512 MB"),
    ],
    ids=["end", "file", "socket", "time", "memory"],
)
def test_a_conversion_can_do_nothing_but_answer(monkeypatch, work, reason: str):
    monkeypatch.setattr(conversion_child, "convert", lambda suffix, raw: work())
    assert reason in json.loads(forked())["refused"]


CONVERTS = """
import resource, sys
from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.errors import LoadError
resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))
converter = ChildConverter(10)
print(converter.convert(".json", b'{"text": "a b c"}')[0].text)
try:
    converter.convert(".json", b'{"text": "%s"}' % (b"a b" * 30_000_000))
except LoadError as refused:
    print(refused)
converter.close()
"""


def test_a_small_file_is_not_blamed_for_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONVERTS], capture_output=True, text=True, check=True
    )
    text, reason = done.stdout.splitlines()
    assert text == "a b c"
    limit = re.search(r"needed more than (\d+) MB", reason)
    assert limit is not None, reason
    assert int(limit[1]) < 400


def forked() -> bytes:
    """Return the reply of a fork with a second of processor time, while its parent waits."""
    reader, writer = os.pipe()
    try:
        with os.fdopen(reader, "rb") as requests:
            request = {"task": "convert", "suffix": ".txt"}
            work = partial(conversion_child._done, request, b"")
            return conversion_child._forked(work, 1, conversion_child.MEMORY_BYTES, requests)
    finally:
        os.close(writer)


def test_files_that_are_not_read_are_named(tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("private")
    folder = tmp_path / "folder"
    (folder / ".git").mkdir(parents=True)
    names = "a.md logo.png id_rsa db.password.txt uv.lock a.min.js .env log.jsonl questions.jsonl"
    for name in (*names.split(), ".git/config.txt"):
        (folder / name).write_text("words")
    (folder / "link.txt").symlink_to(outside)
    (folder / "gone.txt").symlink_to(tmp_path / "nowhere")
    log = RejectLog()
    assert [file.doc_id for file in find_files([folder], log)] == ["a.md", "log.jsonl"]
    assert {(Path(r.file).name, r.reason) for r in log.first} == {
        ("link.txt", "link to a target outside the folder"),
        ("gone.txt", "broken link"),
    }
    assert (log.unread.total(), log.skipped.total()) == (2, 5)
    assert [(Path(note).name) for note in log.notes] == [
        ".git: hidden, not read",
        ".env: hidden, not read",
        "a.min.js: the name suggests a generated file, not read",
        "db.password.txt: the name suggests keys or passwords, not read",
        "id_rsa: the name suggests keys or passwords, not read",
        "logo.png: no reader for .png, not read",
        "uv.lock: a lock file, not read",
    ]


def test_files_without_suffix_are_read_by_content(tmp_path):
    texts = {
        "README": b"OTTERS\n\nThe sea otter dives.\n",
        "LICENSE": "Gewährt wird dies ohne Gebühr. Für Schäden haftet niemand.".encode("latin-1"),
        "NEWS.Debian": b"Version 2 has otters.\n",
        "Makefile": b"all:\n\techo otters\n",
        "Apache-2.0": b"A licence.\n",
        "tool": b"#!/bin/sh\necho otters\n",
        "colours": b"\x1b[1mBold\x1b[0m words of a terminal.\n",
        "utf16": "Wide otters, wide words.".encode("utf-16"),
        "README.gz": gzip.compress(b"Packed otters.\n"),
        "news.css": b"a {}",
        "empty": b"",
    }
    others = {
        "a.out": b"\x7fELF\x02\x01\x01\0\0\0\0",
        "Zulu": b"TZif2" + bytes(40),
        "changelog.gz": b"\x1f\x8b\x08\x00",
        "long": b"x" * 6_000,
    }
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, raw in (texts | others).items():
        (folder / name).write_bytes(raw)
    store = EmbeddedStore(tmp_path / "store.db")
    report, log = store.load(folder), store.rejects
    store.wiring.close()
    assert report.types["without ending"].files == 9
    assert report.files == len(texts) + len(others)
    assert {(Path(r.file).name, r.reason) for r in log.first} == {
        ("a.out", "unsupported file extension, and not a text file"),
        ("Zulu", "unsupported file extension, and not a text file"),
        ("changelog.gz", "not a gzip file, or truncated"),
        ("long", "minified or generated: a line has over 5,000 characters"),
    }
    assert sorted(note.rpartition("/")[2] for note in log.notes) == [
        "LICENSE: read as cp1252",
        "empty: contains no text",
        "utf16: read as utf-16",
    ]


def _prints(suffix: str, raw: bytes) -> None:
    print("A line between the lines of a load.")
    print("Another.", file=sys.stderr)
    raise LoadError("refused")


def test_output_of_a_reader_is_suppressed(monkeypatch, capfd):
    monkeypatch.setattr(conversion_child, "convert", _prints)
    assert b"refused" in forked()
    assert capfd.readouterr() == ("", "")
