"""Loads of hostile files: result, time and memory of each.

`python -m benchmarks.hostile_files [--report FILE]`

Each file is loaded by the command line together with one good file. It must be rejected with a
reason (or loaded as harmless text), and the good file must be loaded. Seconds are processor time;
memory is the maximum over the processes of the load.
"""

# ruff: noqa: E501, PLW0108 - a case is a line; its content is made when its turn has come

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DEEP = 20_000
BIG = 30_000_000
BILLION = "".join(
    f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' if n else '<!ENTITY l0 "lol">' for n in range(10)
)
FILE_ENTITY = '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/passwd">]>'


@dataclass(frozen=True, slots=True)
class Case:
    """A file and its defect."""

    name: str
    defect: str
    content: Callable[[], bytes]


def _docx(document: str, zeros: int = 0, climbs: bool = False) -> Callable[[], bytes]:
    """Return a package with this main part, and one that is oversized or escapes its folder."""

    def package() -> bytes:
        import docx

        out = io.BytesIO()
        docx.Document().save(out)
        target = io.BytesIO()
        with (
            zipfile.ZipFile(out) as good,
            zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bad,
        ):
            for name in good.namelist():
                raw = good.read(name)
                bad.writestr(name, document.encode() if name == "word/document.xml" else raw)
            if zeros:
                bad.writestr("word/media/zeros", b"\0" * zeros)
            if climbs:
                bad.writestr("../../etc/passwd", b"x")
        return target.getvalue()

    return package


def pdf(objects: list[bytes], trailer: bytes = b"<</Size 9/Root 1 0 R>>") -> bytes:
    """Return a PDF file of numbered objects with its cross-reference table."""
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(out + b"trailer\n" + trailer + b"\nstartxref\n%d\n%%%%EOF" % start)


def _stream(raw: bytes, times: int = 1) -> bytes:
    for _ in range(times):
        raw = zlib.compress(raw, 9)
    filters = b"[" + b"/FlateDecode " * times + b"]"
    return b"<</Length %d/Filter %s>>\nstream\n%s\nendstream" % (len(raw), filters, raw)


def _zip(parts: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return out.getvalue()


def _links(**targets: str) -> str:
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    rows = (
        f'<R Id="{key}" Type="{kinds}/{target.split()[0]}" Target="{target.split()[1]}"/>'
        for key, target in targets.items()
    )
    return f"<Rs>{''.join(rows)}</Rs>"


def _xlsx(rows: str, target: str = "s.xml", sheets: int = 1) -> Callable[[], bytes]:
    """Make a workbook whose sheet has these rows."""
    space = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    book = f"<w {space}>{'<sheet name="A" r:id="s"/>' * sheets}</w>"
    main = {"_rels/.rels": _links(a="officeDocument w.xml"), "w.xml": book}
    links = {"_rels/w.xml.rels": _links(s=f"worksheet {target}")}
    return lambda: _zip({**main, **links, "s.xml": f"<s>{rows}</s>"})


def _odf(body: str) -> Callable[[], bytes]:
    return lambda: _zip({"content.xml": f"<o xmlns:t='t'><body>{body}</body></o>"})


def _epub(spine: str, page: str) -> Callable[[], bytes]:
    book = f"<p><item id='a' href='a.html'/>{spine}</p>"
    head = "<c><rootfile full-path='b.opf'/></c>"
    return lambda: _zip({"META-INF/container.xml": head, "b.opf": book, "a.html": page})


ROW = '<row r="1"><c r="{}" t="str"><v>a</v></c><c t="str"><v>b</v></c></row>'
MANY = "number-rows-repeated='1048576'"
PAGES = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>"
CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
ACTION = b"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/URI/URI(http://192.0.2.1/)>>>>"
WORD = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
NOTEBOOK = '{"nbformat": 4, "cells": %s}'

CASES = (
    Case("a.json", "lists 20,000 deep", lambda: b"[" * DEEP + b"]" * DEEP),
    Case("b.json", "objects 20,000 deep", lambda: b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    Case("c.json", "a number of 10 million digits", lambda: b'{"a": ' + b"9" * 10_000_000 + b"}"),
    Case("d.json", "NaN and Infinity", lambda: b'{"text": "a", "metadata": {"x": NaN, "y": Infinity}}'),
    Case("e.json", "a lone surrogate in the text", lambda: b'{"text": "a \\ud800 b"}'),
    Case("f.json", "a doc_id that climbs out", lambda: b'{"doc_id": "../../etc/passwd", "text": "Hello there."}'),
    Case("g.json", "a doc_id of 100,000 letters", lambda: json.dumps({"doc_id": "x" * 100_000, "text": "Hello."}).encode()),
    Case("h.json", "three documents of one id with three texts", lambda: json.dumps([{"doc_id": "x", "text": f"Text {n}."} for n in range(3)]).encode()),
    Case("i.ipynb", "a cell whose source is a number", lambda: (NOTEBOOK % '[{"cell_type": "markdown", "source": 7}]').encode()),
    Case("j.ipynb", "cells 20,000 deep", lambda: (NOTEBOOK % ("[" * DEEP + "]" * DEEP)).encode()),
    Case("k.md", "quotes 20,000 deep", lambda: b">" * DEEP + b" a\n"),
    Case("l.md", "lists 2,000 deep", lambda: "\n".join(" " * 2 * n + "- a" for n in range(2000)).encode()),
    Case("m.md", "100,000 open brackets", lambda: b"[" * 100_000),
    Case("n.md", "100,000 stars and underscores", lambda: b"*_" * 50_000 + b"a"),
    Case("o.md", "front matter that multiplies aliases", lambda: b"---\na: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(8)).encode() + b"---\nText.\n"),
    Case("p.md", "front matter that makes a Python object", lambda: b"---\na: !!python/object/apply:os.system [\"touch /tmp/owned\"]\n---\nText.\n"),
    Case("q.md", "a line of 30 MB without a space", lambda: b"a" * BIG),
    Case("r.md", "NUL in the middle", lambda: b"Hello\0there.\n"),
    Case("s.txt", "random bytes", lambda: bytes((n * n * 31 + n) % 256 for n in range(200_000))),
    Case("t.txt", "20 MB of combining accents", lambda: ("a" + "\u0301\u0323" * 5_000_000).encode()),
    Case("u.txt", "a million headings", lambda: b"A\n=\n\n" * 1_000_000),
    Case("v.rst", "a file inserted", lambda: b"A\n=\n\n.. include:: /etc/passwd\n\nText after it.\n"),
    Case("w.rst", "a table read from a file and from a URL", lambda: b".. csv-table::\n   :file: /etc/passwd\n\n.. csv-table::\n   :url: http://192.0.2.1/\n"),
    Case("x.rst", "raw HTML from a file", lambda: b".. raw:: html\n   :file: /etc/passwd\n\nText after it.\n"),
    Case("y.rst", "a substitution of itself", lambda: b".. |a| replace:: |b| |b|\n.. |b| replace:: |a| |a|\n\n|a|\n"),
    Case("z.rst", "sections of 3,000 levels", lambda: b"".join(b"%c%d\n%c%c%c%c%c%c\n\n" % (65, n, *(bytes([33 + n % 14]) * 6)) for n in range(3000))),
    Case("aa.html", "tags 20,000 deep", lambda: b"<div>" * DEEP + b"a"),
    Case("ab.html", "script and style only", lambda: b"<script>alert(1)</script><style>a{}</style>"),
    Case("ac.html", "an external entity", lambda: f"{FILE_ENTITY}<main><p>&x; stays text.</p></main>".encode()),
    Case("ad.html", "a table of a million cells", lambda: b"<table>" + (b"<tr>" + b"<td>a" * 1000) * 1000),
    Case("ae.docx", "no zip at all", lambda: b"PK\x03\x04 not really"),
    Case("af.docx", "a billion laughs", _docx(f"<!DOCTYPE d [{BILLION}]>{WORD}<w:p><w:r><w:t>&l9;</w:t></w:r></w:p></w:body></w:document>")),
    Case("ag.docx", "an external entity", _docx(f"{FILE_ENTITY}{WORD}<w:p><w:r><w:t>&x;</w:t></w:r></w:p></w:body></w:document>")),
    Case("ah.docx", "2 GB of zeros in one part", _docx(f"{WORD}</w:body></w:document>", zeros=2_000_000_000)),
    Case("ai.docx", "a part named ../../etc/passwd", _docx(f"{WORD}<w:p><w:r><w:t>Harmless text.</w:t></w:r></w:p></w:body></w:document>", climbs=True)),
    Case("aj.pdf", "pages that hold each other", lambda: pdf([CATALOG, b"<</Type/Pages/Kids[2 0 R]/Count 1>>"])),
    Case("ak.pdf", "a stream of 500 MB, packed twice", lambda: pdf([CATALOG, PAGES, PAGE, _stream(b"(a) Tj " * 70_000_000, 2)])),
    Case("al.pdf", "an action on opening that calls a host", lambda: pdf([ACTION, PAGES, PAGE, _stream(b"BT (x) Tj ET")])),
    Case("am.pdf", "a table of places that lies", lambda: b"%PDF-1.7\nxref\n0 99999999\nstartxref\n9\n%%EOF"),
    Case("an.csv", "a row of a million columns", lambda: b"a," * 1_000_000 + b"\n" + b"1," * 1_000_000),
    Case("ao.xlsx", "300,000 rows of two columns", lambda: _xlsx(ROW.format("A1") * 300_000)()),
    Case("ap.xlsx", "20,000 rows whose first cell is in the last column", lambda: _xlsx(ROW.format("XFD1") * 20_000)()),
    Case("aq.xlsx", "a billion laughs", lambda: _zip({"_rels/.rels": f"<!DOCTYPE d [{BILLION}]><d>&l9;</d>"})),
    Case("ar.xlsx", "a sheet that is /etc/passwd", _xlsx(ROW.format("A1"), "../../../../etc/passwd")),
    Case("as.xlsx", "one sheet named 100,000 times", lambda: _xlsx(ROW.format("A1") * 3, sheets=100_000)()),
    Case("at.xlsx", "2 GB of zeros in one part", lambda: _zip({"x": b"\0" * 2_000_000_000})),
    Case("au.ods", "a row of a thousand cells a million times", _odf(f"<spreadsheet><table><table-row {MANY}>{"<table-cell t:number-columns-repeated='16384'><p>a b</p></table-cell>"}</table-row></table></spreadsheet>".replace("number-rows", "t:number-rows"))),
    Case("av.odt", "lists 20,000 deep", lambda: _odf("<text>" + "<list><list-item>" * DEEP + "</list-item></list>" * DEEP + "</text>")()),
    Case("aw.odp", "pages 100 deep, 10,000 of them", lambda: _odf("<presentation>" + ("<page>" * 100 + "<p>a</p>" + "</page>" * 100) * 10_000 + "</presentation>")()),
    Case("ax.pptx", "a presentation that is its own slide", lambda: _zip({"_rels/.rels": _links(a="officeDocument p.xml"), "_rels/p.xml.rels": _links(s="slide p.xml", n="notesSlide p.xml"), "p.xml": "<p xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/relationships'>" + "<sldId r:id='s'/>" * 1000 + "</p>"})),
    Case("ay.docx", "a cell merged over 3,000 rows of 60 columns", _docx(WORD + "<w:tbl>" + "".join(f"<w:tr><w:tc><w:tcPr><w:gridSpan w:val='60'/><w:vMerge{'' if n else " w:val='restart'"}/></w:tcPr><w:p><w:r><w:t>{'' if n else 'words ' * 50}</w:t></w:r></w:p></w:tc></w:tr>" for n in range(3000)) + "</w:tbl></w:body></w:document>")),
    Case("az.epub", "a spine that names one chapter 100,000 times", _epub("<itemref idref='a'/>" * 100_000, "<h1>A</h1><p>Words.</p>")),
    Case("ba.epub", "a chapter outside the book", _epub("<itemref idref='a'/>".replace("a'", "a'") + "<item id='z' href='../../../../etc/passwd'/><itemref idref='z'/>", "<p>Words.</p>")),
    Case("bb.eml", "parts in parts 5,000 deep", lambda: "".join(f'Content-Type: multipart/mixed; boundary="{n}"\n\n--{n}\n' for n in range(5000)).encode()),
    Case("bc.eml", "a header of 2 MB", lambda: b"To: " + b"a@b.c, " * 300_000 + b"\n\nHello.\n"),
    Case("bd.eml", "a text in an encoding of its own", lambda: b"Subject: a\nContent-Type: text/plain; charset=/etc/passwd\n\nHello there.\n"),
    Case("be.mbox", "20,000 messages", lambda: b"From a Mon Jan  1 10:00:00 2024\nSubject: a\n\nb\n\n" * 20_000),
    Case("bf.rtf", "groups 20,000 deep", lambda: b"{\\rtf1" + b"{" * DEEP),
    Case("bg.rtf", "20 MB of escapes", lambda: b"{\\rtf1 " + b"\\u55296?\\'e4" * 2_000_000 + b"}"),
    Case("bh.xml", "a billion laughs", lambda: f"<!DOCTYPE d [{BILLION}]><d>&l9;</d>".encode()),
    Case("bi.xml", "an external entity", lambda: f"{FILE_ENTITY}<d>&x;</d>".encode()),
    Case("bj.xml", "elements 20,000 deep", lambda: b"<a>" * DEEP + b"x" + b"</a>" * DEEP),
    Case("bk.xml", "an element of 300,000 attributes", lambda: b"<a " + b"".join(b"a%d='1' " % n for n in range(300_000)) + b"/>"),
    Case("bl.gz", "2 GB of zeros", lambda: zlib.compress(b"\0" * 2_000_000_000, 9, 31)),
    Case("bm.txt.gz", "cut short", lambda: zlib.compress(b"Hello there. " * 1000, 9, 31)[:30]),
    Case("bn.zip", "2 GB of zeros", lambda: _zip({"a.txt": b"\0" * 2_000_000_000})),
    Case("bo.zip", "zip files inside", lambda: _zip({"a.zip": _zip({"b.zip": _zip({"c.txt": "Deep."})})})),
    Case("bp.zip", "100,000 files", lambda: _zip({f"{n}.txt": "a" for n in range(100_000)})),
    Case("bq.zip", "a name that climbs out, one with a control character", lambda: _zip({"../../etc/passwd": "x", "a\x01b.txt": "Words."})),
    Case("br.zip", "a bomb of a document among good ones", lambda: _zip({"a.md": "# A\n\nWords.\n", "b.docx": _docx(f"{WORD}</w:body></w:document>", zeros=300_000_000)()})),
    Case("bs.1", "another file included", lambda: b".TH A 1\n.so /etc/passwd\n.SH NAME\na\n"),
    Case("bt.1", "20 MB of headings", lambda: b".SH A\na\n" * 2_500_000),
    Case("bu.py", "a line of 30 MB", lambda: b"a" * BIG),
    Case("bv.c", "2 million lines that nearly begin a function", lambda: (b"a" + b" *" * 100 + b"b" + b"(" * 20 + b"\n") * 50_000),
    Case("bw.yaml", "aliases that multiply", lambda: b"a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(8)).encode()),
    Case("bx.toml", "a million sections", lambda: b"[a]\nb=1\n" * 1_000_000),
    Case("by.tex", "a million sections", lambda: b"\\section{A}\nb\n" * 1_000_000),
    Case("bz.html", "a cell over a million columns and rows", lambda: b"<table><tr><td colspan=9999 rowspan=9999>" + b"word " * 100 + b"<tr><td>a" * 5_000),
    Case("ca.tsv", "quotes that never close", lambda: b'a\tb\n"' + b"x\ty\n" * 3_000_000),
    Case("cb.unknown", "bytes with an unknown extension", lambda: bytes(range(256)) * 1000),
)  # fmt: skip


def measure(case: Case) -> dict[str, str]:
    """Load one case together with a good file."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "folder"
        folder.mkdir()
        # Created in another process: a child's reported peak memory is at least its parent's.
        subprocess.run(
            [sys.executable, "-m", "benchmarks.hostile_files", "--make", str(folder), case.name],
            check=True,
        )
        size = (folder / case.name).stat().st_size
        (folder / "good.md").write_text("# Good\n\nThis file is fine.\n")
        rejects = Path(temporary) / "rejects.jsonl"
        command = [
            sys.executable, "-m", "docstokg_local.cli.commands", "load", str(folder), "--no-embed",
            "--index", f"sqlite:///{temporary}/store.sqlite", "--rejects", str(rejects),
        ]  # fmt: skip
        environment = os.environ | {"DOCSTOKG_NAMES": "rule", "DOCSTOKG_CACHE_DIR": temporary}
        with (Path(temporary) / "said").open("w+b") as output:
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        rows = [json.loads(line) for line in rejects.read_text("utf-8").splitlines()]
        loaded = re.search(r"^([\d,]+) chunks?", text, re.M)
        reasons = "; ".join(dict.fromkeys(row["reason"] for row in rows))
        return {
            "file": f"`{case.name}` {size / 1e6:.2f} MB",
            "what": case.defect,
            "said": reasons or f"loaded: {loaded[0] if loaded else '?'} with the good file's",
            "exit": str(process.returncode),
            "seconds": f"{usage.ru_utime + usage.ru_stime:.1f}",
            "peak": f"{usage.ru_maxrss / 1024:.0f}",
        }


def main() -> None:
    """Measure all or the chosen cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.make is not None:
        for case in CASES:
            if case.name in chosen.names:
                (chosen.make / case.name).write_bytes(case.content())
        return
    lines = [
        "| file | content | result | exit | processor s | peak MB |",
        "|---|---|---|---|---|---|",
    ]
    for case in CASES:
        if chosen.names and case.name not in chosen.names:
            continue
        row = {key: value.replace("|", "\\|")[:300] for key, value in measure(case).items()}
        lines.append(f"| {' | '.join(row.values())} |")
        print(lines[-1], flush=True)
    if chosen.report is not None:
        head = "# Hostile files\n\n`python -m benchmarks.hostile_files`, each together with a good file.\n\n"
        chosen.report.write_text(head + "\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
