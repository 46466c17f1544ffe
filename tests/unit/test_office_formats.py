"""Spreadsheets, slides, books, mail, code, archives: converted texts and places."""

import gzip
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from docstokg.adapters.conversion.parent import ChildConverter
from docstokg.adapters.onnx.wordpieces import WordPieces
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.readers.documents import Document, document_chunks, read_documents

PIECES = WordPieces()
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
LINKS = "http://schemas.openxmlformats.org/package/2006/relationships"


@pytest.fixture(scope="module")
def child() -> Iterator[ChildConverter]:
    converter = ChildConverter()
    yield converter
    converter.close()


def packed(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return out.getvalue()


def links(**targets: str) -> str:
    rows = "".join(
        f'<Relationship Id="{id_}" Type="{OFFICE}/{link.split()[0]}" Target="{link.split()[1]}"/>'
        for id_, link in targets.items()
    )
    return f'<Relationships xmlns="{LINKS}">{rows}</Relationships>'


def run(text: str, properties: str = "") -> str:
    return f"<w:r><w:rPr>{properties}</w:rPr><w:t xml:space='preserve'>{text}</w:t></w:r>"


def paragraph(*runs: str) -> str:
    return f"<w:p>{''.join(runs)}</w:p>"


W = "xmlns:w='w' xmlns:wp='wp' xmlns:mc='mc' xmlns:v='v' xmlns:r='r'"


def word(body: str, **parts: str) -> bytes:
    """Write a Word document without styles; `parts`: further parts by their kind."""
    named = {f"p{at}": f"{kind} {kind}.xml" for at, kind in enumerate(parts)}
    files = {
        "_rels/.rels": links(a="officeDocument word/document.xml"),
        "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": links(**named),
    }
    files |= {
        f"word/{kind}.xml": f"<w:{kind} {W}>{text}</w:{kind}>" for kind, text in parts.items()
    }
    return packed(files)


def xlsx(sheet: str, strings: str = "", styles: str = "", merged: Iterable[str] = ()) -> bytes:
    cells = "".join(f'<mergeCell ref="{ref}"/>' for ref in merged)
    return packed(
        {
            "_rels/.rels": links(a="officeDocument xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns:r="{OFFICE}"><sheets>'
            '<sheet name="Fleet" sheetId="1" r:id="s"/>'
            '<sheet name="Old" sheetId="2" state="hidden" r:id="s"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": links(
                s="worksheet worksheets/one.xml", t="sharedStrings strings.xml", u="styles st.xml"
            ),
            "xl/worksheets/one.xml": f"<worksheet><sheetData>{sheet}</sheetData>"
            f"<mergeCells>{cells}</mergeCells></worksheet>",
            "xl/strings.xml": f"<sst>{strings}</sst>",
            "xl/st.xml": f"<styleSheet>{styles}</styleSheet>",
        }
    )


def opened(child: ChildConverter, path: Path, raw: bytes) -> tuple[Document, ...]:
    path.write_bytes(raw)
    return read_documents(path, path.name, child)


@pytest.fixture
def convert_file(
    child: ChildConverter, tmp_path: Path
) -> Callable[[str, bytes], tuple[str, list[RawChunk]]]:
    """Return a function that reads a file of one document: its text and chunks."""

    def converted(name: str, raw: bytes) -> tuple[str, list[RawChunk]]:
        (document,) = opened(child, tmp_path / name, raw)
        chunks = list(document_chunks(document, name, PIECES))
        for chunk in chunks:
            assert chunk.char_start is not None
            end = chunk.char_start + len(chunk.text)
            assert document.text[chunk.char_start : end] == chunk.text
        return document.text, chunks

    return converted


def places(chunks: list[RawChunk]) -> list[tuple[object, str | None, str]]:
    return [(chunk.page, chunk.anchor, chunk.text) for chunk in chunks]


def test_a_row_has_column_names_sheet_and_cell(convert_file):
    sheet = (
        '<row r="1"><c r="A1" t="inlineStr"><is><t>Our fleet</t></is></c></row>'
        '<row r="3"><c r="A3" t="s"><v>0</v></c><c r="B3" t="s"><v>1</v></c>'
        '<c r="D3" t="str"><v>Since</v></c></row>'
        '<row r="7"><c r="A7" t="inlineStr"><is><r><t>Ci</t></r><r><t>ty</t></r></is></c>'
        '<c r="B7"><f>20+1.8</f><v>21.800000000000001</v></c><c r="D7" s="1"><v>45292</v></c></row>'
    )
    strings = "<si><t>Model</t></si><si><r><t>Weight</t></r><rPh><t>x</t></rPh></si>"
    styles = '<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs>'
    _, chunks = convert_file("a.xlsx", xlsx(sheet, strings, styles))
    assert places(chunks) == [
        ("Fleet", "A1", "Our fleet"),
        ("Fleet", "A7", "Model: City\nWeight: 21.8\nSince: 2024-01-01"),
    ]


def test_a_repeating_opendocument_sheet_has_an_end(convert_file):
    row = "<table:table-row {}>{}</table:table-row>".format
    cell = "<table:table-cell {}><text:p>{}</text:p></table:table-cell>".format
    wide = 'table:number-columns-repeated="16380"'
    repeated = 'table:number-rows-repeated="1048576"'
    rows = row("", cell("", "who") + cell("", "days"))
    rows += row("", cell("", "all") + cell("", "28") + cell(wide, ""))
    rows += row(repeated, cell("", "x")) + row(repeated, cell("", ""))
    content = (
        "<o xmlns:office='o' xmlns:table='t' xmlns:text='x'><office:body><office:spreadsheet>"
        f"<table:table table:name='Leave'>{rows}</table:table></office:spreadsheet></office:body>"
        "</o>"
    )
    _, chunks = convert_file("a.ods", packed({"content.xml": content}))
    assert places(chunks)[0] == ("Leave", "A2", "who: all\ndays: 28")
    assert len(chunks) == 1_001


def test_an_opendocument_text_has_headings_lists_and_tables(convert_file):
    cell = "<table-cell><p>{}</p></table-cell>".format
    row = "<table-row>{}</table-row>".format
    head = f"<table-header-rows>{row(cell('Part') + cell('3 days'))}</table-header-rows>"
    content = (
        "<o><body><text><h outline-level='1'>Care</h><p>Oil the<s/>pump<note><p>not this</p>"
        "</note>.</p><list><list-item><p>daily</p></list-item></list>"
        f"<table>{head}{row(cell('Seal') + cell('4'))}</table></text></body></o>"
    )
    text, chunks = convert_file("a.odt", packed({"content.xml": content}))
    assert text.split("\n\n")[:4] == [
        "Care",
        "Oil the pump.",
        "- daily",
        "Part: Seal; 3 days: 4.",
    ]
    assert {chunk.section for chunk in chunks} == {"Care"}


def test_slides_are_ordered_pages_with_their_notes(convert_file):
    shape = (
        "<p:sp><p:nvSpPr><p:nvPr><p:ph type='{}'/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>{}"
        "</a:t></a:r></a:p></p:txBody></p:sp>"
    ).format
    slide = "<p:sld xmlns:p='p' xmlns:a='a'>{}</p:sld>".format
    raw = packed(
        {
            "_rels/.rels": links(a="officeDocument ppt/p.xml"),
            "ppt/p.xml": f"<p xmlns:r='{OFFICE}'><l><sldId id='256' r:id='two'/>"
            "<sldId r:id='one' id='257'/></l></p>",
            "ppt/_rels/p.xml.rels": links(one="slide s/1.xml", two="slide /ppt/s/2.xml"),
            "ppt/s/1.xml": slide(shape("title", "Goals") + shape("body", "Fewer leaks.")),
            "ppt/s/2.xml": slide(shape("ctrTitle", "Pumps") + shape("sldNum", "1")),
            "ppt/s/_rels/2.xml.rels": links(n="notesSlide ../n/2.xml"),
            "ppt/n/2.xml": slide(shape("body", "Say hello first.") + shape("hdr", "Header")),
        }
    )
    text, chunks = convert_file("a.pptx", raw)
    assert [chunk.page for chunk in chunks] == [1, 2]
    assert text.split() == ["Pumps", "Say", "hello", "first.", "Goals", "Fewer", "leaks."]
    assert [chunk.section for chunk in chunks] == ["Pumps", "Goals"]


def test_a_book_is_its_chapters_in_spine_order(convert_file):
    raw = packed(
        {
            "META-INF/container.xml": "<c><rootfile full-path='O/b.opf'/></c>",
            "O/b.opf": "<p xmlns:d='d'><d:title>Whales</d:title><manifest>"
            "<item id='x' href='t%20two.xhtml'/><item id='y' href='one.xhtml'/></manifest>"
            "<spine><itemref idref='y'/><itemref idref='x'/></spine></p>",
            "O/one.xhtml": "<html><body><h1 id='c1'>Loomings</h1><p>Call me.</p></body></html>",
            "O/t two.xhtml": "<html><body><h1>Bag</h1><p>I stuffed it.</p></body></html>",
        }
    )
    _, chunks = convert_file("a.epub", raw)
    assert [(c.title, c.section, c.anchor) for c in chunks] == [
        ("Whales", "Loomings", "c1"),
        ("Whales", "Bag", "bag"),
    ]


MAIL = (
    b"From: =?utf-8?q?J=C3=B6rg?= <j@example.org>\r\nTo: b@example.org\r\nSubject: The pump\r\n"
    b'Date: Mon, 1 Jan 2024 10:00:00 +0000\r\nContent-Type: multipart/mixed; boundary="x"\r\n\r\n'
    b"--x\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\nIt is caf\xe9-brown.\r\n--x\r\n"
    b'Content-Type: application/pdf\r\nContent-Disposition: attachment; filename="p.pdf"\r\n\r\n'
    b"%PDF\r\n--x--\r\n"
)


def test_a_mail_is_its_subject_people_and_text(convert_file):
    text, chunks = convert_file("a.eml", MAIL)
    assert "From: Jörg <j@example.org>" in text
    assert "It is café-brown." in text
    assert "Attachment (not read): p.pdf" in text
    assert chunks[0].title == "The pump"


def test_quoted_mail_is_a_passage_with_its_sender(convert_file):
    mail = b"From: Bo <b@x.org>\n\nWe take 12.\n\nOn 3 June Anna wrote:\n> We take 8.\n"
    _, chunks = convert_file("a.eml", mail)
    sources = [chunk.metadata.get("quoted_from", "") for chunk in chunks]
    assert (chunks[-1].text, sources) == ("We take 8.", ["", "On 3 June Anna wrote"])
    assert chunks[-1].metadata["quoted"] is True


def test_each_mail_of_a_box_is_a_document(child, tmp_path):
    box = (
        b"From a Mon Jan  1 10:00:00 2024\n" + MAIL + b"\nFrom b Tue Jan  2 10:00:00 2024\n" + MAIL
    )
    documents = opened(child, tmp_path / "a.mbox", box)
    assert [document.doc_id for document in documents] == ["a.mbox/0", "a.mbox/1"]


def test_code_is_split_at_functions_without_entity_names(convert_file):
    body = "".join(f"    # Line {n} of what the Great Wall Function does.\n" for n in range(40))
    source = f"import os\n\n\nclass Lock:\n{body}\n\n# Frees it.\n@once\ndef free(lock):\n{body}"
    text, chunks = convert_file("a.py", source.encode())
    assert text == source
    assert all(chunk.mentions == () for chunk in chunks)
    free = next(chunk for chunk in chunks if chunk.text.startswith("# Frees it."))
    assert free.anchor == "L47"
    assert free.section is None


@pytest.mark.parametrize(
    ("name", "text", "section", "anchor"),
    [
        ("a.toml", "# Top.\na = 1\n\n[tool.x]\nb = 2\n", "tool.x", "L4"),
        ("a.ini", "[one]\na = 1\n[two]\nb = 2\n", "two", "L3"),
    ],
)
def test_settings_keep_their_text_and_sections(convert_file, name, text, section, anchor):
    content, chunks = convert_file(name, text.encode())
    assert content == text
    assert (chunks[-1].section, chunks[-1].anchor) == (section, anchor)


def test_a_packed_manual_page_is_its_words(convert_file):
    page = (
        '.\\" Copyright\n.TH PUMP 1 "May 2024"\n.SH NAME\npump \\- move water\n.SH OPTIONS\n.TP\n'
        "\\fB\\-k\\fR, \\fB\\-\\-keep\\fR\nKeep the\n.I water\nwarm.\n.nf\n  pump -k\n.fi\n"
    )
    text, chunks = convert_file("pump.1.gz", gzip.compress(page.encode()))
    assert text.strip().split("\n\n") == [
        "NAME",
        "pump - move water",
        "OPTIONS",
        "-k, --keep\n    Keep the water warm.",
        "      pump -k",
    ]
    assert chunks[0].title == "pump(1)"
    mdoc = ".Dd May 1\n.Dt FAN 8\n.Sh NAME\n.Nm fan\n.Nd move air\n.Sh FLAGS\n.Bl\n"
    mdoc += ".It Fl s Ar n\nGo.\n.El\n"
    text, _ = convert_file("fan.8", mdoc.encode())
    assert "fan — move air" in text
    assert "-s n\n    Go." in text
    plain, _ = convert_file("notes.1", b"No page at all.\n")
    assert plain == "No page at all.\n"


ICON = r"\'f3\'b0\'80\'80", r"\'f3\'b0\'80\'85"
RTF = {
    "paragraphs and cells": (
        r"\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\gen X;}Caf\'e9 \b d\'e9j\u224?\b0\par"
        r" \u8364?5 \{ok\}\par a\cell b\cell\row",
        "Café déjà\n\n€5 {ok}\n\na: b.",
    ),
    "characters that do not exist": (
        r"Valve \u99999999?seven\u-99999?. It closes \u9731? at 12 bar.\u%s?" % ("9" * 5_000),
        "Valve \ufffdseven\ufffd. It closes \u2603 at 12 bar.\ufffd",
    ),
    **{
        f"escape and {name}": (
            rf"The ticket costs {escape}12 for adults\outlinelevel0 \'e0 of any \b age",
            "The ticket costs €12 for adultsà of any age",
        )
        for name, escape in {
            "one replacement": r"\u8364 ?",
            "no replacement": r"\uc0\u8364 ",
            "six replacements": r"\uc6\u8364 abcdef",
        }.items()
    },
    "first private character": (
        rf"\ansicpg65001 Press {ICON[0]} for a minute.",
        "Press \U000f0000 for a minute.",
    ),
    "private character": (
        rf"\ansicpg65001 Press {ICON[1]} for a minute.",
        "Press \U000f0005 for a minute.",
    ),
}


@pytest.mark.parametrize("name", RTF)
def test_rtf_is_its_text(convert_file, name):
    source, expected = RTF[name]
    text, _ = convert_file("a.rtf", rf"{{\rtf1{source}}}".encode())
    assert text.strip() == expected


@pytest.mark.parametrize("name", ["a.xml", "a.rss", "a.tex", "a.org"])
def test_xml_tex_and_org_are_plain_text(convert_file, name):
    text = "<book><title>Care</title>\n\n\\section{Oil}\n\n* Oil &l9;\n</book>\n"
    content, chunks = convert_file(name, text.encode())
    assert content == text
    assert all(text[chunk.char_start :].startswith(chunk.text) for chunk in chunks)
    assert {chunk.section for chunk in chunks} == {None}


def test_zip_members_are_documents_or_named_in_rejects(child, tmp_path):
    raw = packed(
        {
            "a/one.md": "# One\n\nFirst.\n",
            "a/two.py": "def f():\n    pass\n",
            "a/three.txt": "Third.",
            "b/four.docx": b"PK no",
            ".env": "PASSWORD=1",
            "inner.zip": packed({"x.txt": "Deep."}),
            "logo.png": b"\x89PNG",
            "tool": b"\x7fELF\0\0",
            "a\x1b.txt": "Odd.",
        }
    )
    documents = opened(child, tmp_path / "a.zip", raw)
    assert [document.doc_id for document in documents if not document.refused] == [
        "a.zip/a/one.md",
        "a.zip/a/two.py",
        "a.zip/a/three.txt",
    ]
    assert [document.refused for document in documents if document.refused] == [
        "b/four.docx: not a valid DOCX document",
        ".env: hidden",
        "inner.zip: archive inside an archive",
        "logo.png: no reader for .png",
        "tool: NUL character in line 1",
        "a\x1b.txt: must not contain control characters",
    ]
    code = list(document_chunks(documents[1], "two.py", PIECES))
    assert code[0].mentions == ()


def test_table_rows_are_read_with_their_column_names(convert_file):
    page = b"""<table><tr><th rowspan=2>Model<th colspan=2>Weight<tr><th>empty<th>full
    <tr><td rowspan=2>City<td>21 kg<td>80 kg<tr><td>22 kg<td>81 kg</table>
    <table><tr><td>Range<td>90 km<tr><td>Speed<td>25 km/h</table>
    <table><tr><td>Part<td>Price<tr><td>Bell<td>4</table>
    <table><tr><td><h2>Layout</h2><p>Words.</p></table>
    <table><tr><td colspan=99999999 rowspan=99999999>wide<tr><td>more</table>"""
    text, _ = convert_file("a.html", page)
    assert text.strip().split("\n\n")[:8] == [
        "Model: City; Weight empty: 21 kg; Weight full: 80 kg.",
        "Model: City; Weight empty: 22 kg; Weight full: 81 kg.",
        "Range: 90 km.",
        "Speed: 25 km/h.",
        "Part: Bell; Price: 4.",
        "Layout",
        "Words.",
        "wide",
    ]
