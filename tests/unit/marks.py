"""Table of marks and formats (`marks.tsv`), and a small file of each format around a fragment."""

import json
from pathlib import Path
from typing import NamedTuple

from tests.strange_inputs import paged
from tests.unit.test_loading_formats import pdf
from tests.unit.test_office_formats import OFFICE, links, packed

FORMATS = ("docx", "odt", "pptx", "odp", "xlsx", "ods", "pdf", "html", "md", "rst", "epub", "eml",
           "ipynb", "rtf")  # fmt: skip
RULES = ("rendered", "left out and counted", "kept as written", "does not exist")


class Mark(NamedTuple):
    """One cell: a fragment of a format, a text that is read, one that is not, and the note."""

    mark: str
    format: str
    rule: str
    fragment: str = ""
    read: str = ""
    unread: str = ""
    note: str = ""


def marks() -> list[Mark]:
    """Return the cells; a line may have several formats, a fragment has `\\n` for a line end."""
    lines = Path(__file__).with_name("marks.tsv").read_text("utf-8").splitlines()
    rows = [line.split("\t") for line in lines]
    return [
        Mark(mark, suffix, rule, *(field.replace("⏎", "\n") for field in fields))
        for mark, formats, rule, *fields in rows
        for suffix in formats.split()
    ]


_LEVELS = "".join(
    f'<lvl ilvl="{at}"><start val="{start}"/><numFmt val="{form}"/><lvlText val="{text}"/></lvl>'
    for at, (form, text, start) in enumerate(
        [("decimal", "%1.", 3), ("lowerLetter", "%2)", 1), ("decimal", "%1.%3", 1)]
    )
)
_STYLES = '<style styleId="C"><name val="Table Caption"/></style>'
_ODF = """<d><automatic-styles>
<style family="text" name="up"><text-properties text-position="super 58%"/></style>
<style family="text" name="down"><text-properties text-position="sub 58%"/></style>
<style family="text" name="struck"><text-properties text-line-through-style="solid"/></style>
<style family="text" name="hidden"><text-properties display="none"/></style>
<style family="text" name="white">
<text-properties color="#ffffff" background-color="#ffffff"/></style>
<style family="text" name="tiny"><text-properties font-size="1pt"/></style>
<style family="drawing-page" name="off"><drawing-page-properties visibility="hidden"/></style>
<style family="table" name="off"><table-properties display="false"/></style>
<list-style name="L">
<list-level-style-number level="1" num-format="1" num-suffix="." start-value="3"/>
<list-level-style-number level="2" num-format="a" num-suffix=")"/>
<list-level-style-number level="3" num-format="1" display-levels="3"/></list-style>
</automatic-styles><body>{}</body></d>""".format


def _docx(fragment: str) -> bytes:
    parts = {
        "numbering": f'<abstractNum abstractNumId="1">{_LEVELS}</abstractNum>'
        '<num numId="1"><abstractNumId val="1"/></num>',
        "styles": _STYLES,
        "footnotes": '<footnote id="1"><p><r><t>Not in winter.</t></r></p></footnote>',
        "comments": "<p><r><t>Say July.</t></r></p>",
    }
    files = {f"word/{kind}.xml": f"<d>{text}</d>" for kind, text in parts.items()}
    return packed(
        files
        | {
            "_rels/.rels": links(a="officeDocument word/document.xml"),
            "word/document.xml": f"<d><body>{fragment}</body></d>",
            "word/_rels/document.xml.rels": links(**{k: f"{k} {k}.xml" for k in parts}),
        }
    )


def _pptx(fragment: str) -> bytes:
    attributes, _, shapes = fragment.rpartition("|")
    return packed(
        {
            "_rels/.rels": links(a="officeDocument ppt/p.xml"),
            "ppt/p.xml": f"<p xmlns:r='{OFFICE}'><sldId r:id='one'/></p>",
            "ppt/_rels/p.xml.rels": links(one="slide s/1.xml"),
            "ppt/s/1.xml": f"<sld {attributes}>{shapes}</sld>",
            "ppt/comments/comment1.xml": "<c><text>Say July.</text></c>",
        }
    )


def _xlsx(fragment: str) -> bytes:
    attributes, _, sheet = fragment.rpartition("|")
    kinds = ("", "<strike/>", '<color rgb="FFFFFFFF"/>', '<sz val="1"/>')
    fonts = "".join(f"<font>{kind}</font>" for kind in kinds)
    formats = "".join(f'<xf fontId="{at}"/>' for at in range(4))
    return packed(
        {
            "_rels/.rels": links(a="officeDocument x/w.xml"),
            "x/w.xml": f"<w xmlns:r='{OFFICE}'><sheet name='S' {attributes} r:id='s'/></w>",
            "x/_rels/w.xml.rels": links(s="worksheet s.xml", t="styles t.xml"),
            "x/s.xml": f"<worksheet>{sheet}</worksheet>",
            "x/t.xml": f"<t><fonts>{fonts}</fonts><cellXfs>{formats}</cellXfs></t>",
            "x/comments1.xml": "<c><t>Say July.</t></c>",
        }
    )


def _odf(kind: str, fragment: str) -> bytes:
    formula = "<math><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac></math>"
    content = _ODF(f"<{kind}>{fragment}</{kind}>")
    return packed({"content.xml": content, "Object 1/content.xml": formula})


def _pdf(fragment: str) -> bytes:
    text, _, annotation = fragment.partition("<<")
    if annotation:
        field = f"<<{annotation}".encode()
        return paged([[(60, 700, text)]], [field], "/AcroForm<</Fields[5 0 R]>>")
    return pdf([fragment])


def _epub(fragment: str) -> bytes:
    book = "<p><item id='x' href='x.html'/><itemref idref='x'/></p>"
    return packed(
        {
            "META-INF/container.xml": "<c><rootfile full-path='b.opf'/></c>",
            "b.opf": book,
            "x.html": f"<html><body>{fragment}</body></html>",
        }
    )


def _mail(fragment: str) -> bytes:
    kind = "html" if fragment.startswith("<") else "plain"
    return f"From: Bo <b@x.org>\nContent-Type: text/{kind}; charset=utf-8\n\n{fragment}".encode()


def _notebook(fragment: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "markdown", "source": fragment}]}).encode()


def file_of(mark: Mark) -> bytes:
    """Return a file of the mark's format that contains its fragment."""
    page = f"<page><frame><text-box>{mark.fragment}</text-box></frame></page>"
    builders = {
        "docx": _docx,
        "pptx": _pptx,
        "xlsx": _xlsx,
        "odt": lambda text: _odf("text", text),
        "odp": lambda text: _odf("presentation", text if text.startswith("<page") else page),
        "ods": lambda text: _odf("spreadsheet", text),
        "pdf": _pdf,
        "epub": _epub,
        "eml": _mail,
        "ipynb": _notebook,
        "rtf": lambda text: f"{{\\rtf1\\ansi {text}}}".encode(),
    }
    return builders.get(mark.format, str.encode)(mark.fragment)
