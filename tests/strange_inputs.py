"""Small documents of kinds that loaders get wrong, each with a question and its right value."""

import io
from collections.abc import Callable, Sequence
from typing import NamedTuple

import docx

from benchmarks.hostile_files import pdf
from tests.unit.test_office_formats import paragraph, run, word, xlsx

Piece = tuple[int, int, str]
"""Where a text begins on a page, in points from the lower left, and the text."""


class Input(NamedTuple):
    """Files of one namespace, a question, and required parts of its answer.

    `contains`: all of these are in the answer; empty: there is no answer. `silent`: none of these
    is. `note`: a part of a note of the load.
    """

    files: dict[str, bytes]
    question: str
    contains: tuple[str, ...]
    silent: tuple[str, ...] = ()
    note: str = ""


def paged(
    pages: Sequence[Sequence[Piece]],
    annotations: Sequence[bytes] = (),
    form: str = "",
    size: int = 11,
) -> bytes:
    """Write a PDF of these pages; `annotations`: objects from number 3 + 2 x pages.

    `size`: of the font in points.
    """
    count = len(pages)
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(count))
    objects = [
        f"<</Type/Catalog/Pages 2 0 R{form}>>".encode(),
        f"<</Type/Pages/Kids[{kids}]/Count {count}>>".encode(),
    ]
    annots = "".join(f"{3 + 2 * count + n} 0 R " for n in range(len(annotations)))
    font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    for number, pieces in enumerate(pages):
        drawn = "".join(f"BT /F1 {size} Tf {x} {y} Td ({text}) Tj ET\n" for x, y, text in pieces)
        objects += [
            f"<</Length {len(drawn)}>>stream\n{drawn}\nendstream".encode(),
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {3 + 2 * number} 0 R"
            f"/Annots[{annots}]/Resources<</Font<</F1{font}>>>>>>".encode(),
        ]
    count = len(objects) + len(annotations) + 1
    return pdf([*objects, *annotations], b"<</Size %d/Root 1 0 R>>" % count)


def table_rows(y: int, *rows: Sequence[str], step: int = 20) -> list[Piece]:
    """Place the cells of rows in columns, the first row at `y`."""
    places = [(n, at, cell) for n, row in enumerate(rows) for at, cell in enumerate(row)]
    return [(60 + 130 * at, y - step * n, cell) for n, at, cell in places]


def saved(save: Callable[[io.BytesIO], None]) -> bytes:
    out = io.BytesIO()
    save(out)
    return out.getvalue()


def _docx(*rows: Sequence[str], bold: bool = False) -> bytes:
    document = docx.Document()
    table = document.add_table(len(rows), len(rows[0]))
    for at, row in enumerate(rows):
        for column, value in enumerate(row):
            run = table.cell(at, column).paragraphs[0].add_run(value)
            run.bold = bold and not at
    return saved(document.save)


STYLES = (
    '<numFmts><numFmt numFmtId="200" formatCode="[h]:mm"/><numFmt numFmtId="201"'
    ' formatCode="0000"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="9"/>'
    '<xf numFmtId="200"/><xf numFmtId="201"/></cellXfs>'
)


def _sheet(*rows: Sequence[str | tuple[str, int]], merged: Sequence[str] = ()) -> bytes:
    """Write a sheet of texts, and of values with their styles."""
    written = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
    return xlsx(written, styles=STYLES, merged=merged)


def _cell(cell: str | tuple[str, int]) -> str:
    if isinstance(cell, str):
        return f'<c t="inlineStr"><is><t>{cell}</t></is></c>'
    return f'<c s="{cell[1]}"><v>{cell[0]}</v></c>'


FURNITURE = [
    [(60, 810, "Rules of the harbour"), (60, 700, text), (280, 30, f"- {n} -")]
    for n, text in enumerate(
        (
            "Boats enter before noon.",
            "A boat without papers waits until the",
            "harbour master has spoken, for at most 9 hours. Nets are dried ashore.",
            "The crane lifts 4 tons.",
        ),
        1,
    )
]
LONG_TABLE = [
    table_rows(
        *(700, ("Hut", "Beds", "Opens")),
        *((f"Arve {n}", f"{20 + n}", f"{n + 1} May") for n in range(4)),
    ),
    table_rows(780, *((f"Fex {n}", f"{40 + n}", f"{n + 1} June") for n in range(4))),
]
WARNING = paragraph(run("Warning: drain the boiler of Sent below minus 7 degrees."))
BOX = f"<w:r><w:pict><w:txbxContent>{WARNING}</w:txbxContent></w:pict></w:r>"
HIDDEN = run("The safe of Orlo has the code 7719.", "<w:vanish/>")
HYPHEN = "<w:r><w:noBreakHyphen/></w:r>"
HYPHENS = paragraph(run("Parcels in the Pick"), HYPHEN, run("Up hall wait 3 days."))
GATE = "The gate of Mels opens at dawn."

INPUTS: dict[str, Input] = {
    "a page that begins with a zero-width space": Input(
        {"a.html": f"<p>\u200b</p><p>{GATE}</p>".encode()}, "When does the gate of Mels open?",
        ("dawn",),
    ),
    "a file of soft hyphens beside a good one": Input(
        {"a.txt": "\u00ad\u00ad".encode(), "b.txt": GATE.encode()},
        "When does the gate of Mels open?", ("dawn",), note="a.txt: contains no text",
    ),
    "a heading of variation selectors": Input(
        {"a.md": f"# \ufe0f\n\n{GATE}\n".encode()}, "When does the gate of Mels open?", ("dawn",)
    ),
    "a text box": Input({"a.docx": word(paragraph(run("The boiler room of Sent."), BOX))},
                        "Below which degrees is the boiler drained?", ("minus 7",)),
    "hidden text": Input({"a.docx": word(paragraph(run("The hall of Orlo has 40 seats."), HIDDEN))},
                         "Which code has the safe of Orlo?", (), ("7719",),
                         "hidden texts not read: 1"),
    "a no-break hyphen": Input({"a.docx": word(HYPHENS)}, "How long do parcels wait in the hall?",
                               ("3 days", "Pick-Up")),
    "values of a form": Input(
        {"a.pdf": paged([[(60, 700, "Berth:"), (60, 650, "Signed in Sils.")]],
                        [b"<</Type/Annot/Subtype/Widget/FT/Tx/T(berth)/V(Nadir 12)"
                         b"/Rect[150 695 400 715]>>"], "/AcroForm<</Fields[5 0 R]>>")},
        "What is the berth?", ("Nadir 12",),
    ),
    "years as a header": Input(
        {"a.docx": _docx(("Choir", "2021", "2022"), ("Altos", "17", "19"), ("Basses", "8", "6"))},
        "How many altos did the choir have in 2022?", ("2022: 19",), ("Basses",),
    ),
    "a header in bold": Input(
        {"a.docx": _docx(("Dose", "5", "10"), ("Adult", "2", "4"), ("Child", "1", "3"), bold=True)},
        "What is the dose of 10 for a child?", ("Child", "10: 3"), ("Adult",),
    ),
    "quarters in slides of text": Input(
        {"a.html": b"<table><tr><td>Shop</td><td>Q1 2024</td><td>Q2 2024</td></tr><tr><td>Ilanz"
                   b"</td><td>71</td><td>82</td></tr><tr><td>Thusis</td><td>64</td><td>53</td></tr>"
                   b"</table>"},
        "What did the shop Thusis sell in Q2 2024?", ("Q2 2024: 53",), ("Ilanz",),
    ),
    "two header rows": Input(
        {"a.xlsx": _sheet(
            ("Herb", "Summer", "", "Winter", ""), ("", "Low", "High", "Low", "High"),
            ("Sage", ("11", 0), ("27", 0), ("2", 0), ("8", 0)),
            merged=("A1:A2", "B1:C1", "D1:E1"))},
        "What is the high of sage in winter?", ("Winter High: 8",),
    ),
    "percent": Input(
        {"a.xlsx": _sheet(("Valley", "Growth"),
                          ("Landquart", ("0.07", 1)), ("Davos", ("-0.12", 1)))},
        "What was the growth of Davos?", ("-12%",), ("Landquart",),
    ),
    "a duration over a day": Input(
        {"a.xlsx": _sheet(("Tour", "Length"), ("Ridge", ("1.3125", 2)))},
        "How long is the ridge tour?", ("31:30",),
    ),
    "leading zeros": Input(
        {"a.xlsx": _sheet(("Depot", "Code"), ("Chur", ("42", 3)))},
        "What is the code of the depot Chur?", ("0042",),
    ),
    "a table over two pages": Input(
        {"a.pdf": paged(LONG_TABLE)}, "How many beds has the hut Fex 2?", ("Beds: 42",), ("Arve",)
    ),
    "a separator line": Input({"a.csv": b"sep=|\nBridge|Load\nUnder Bridge|12 t\n"},
                              "What load does the Under Bridge carry?", ("12 t",), ("sep",)),
    "an open quote": Input(
        {"a.csv": b'no,fault\n31,"lamp out\n32,door of lift 4 stuck\n33,tap drips\n'},
        "Which fault has the door of lift 4?", ("32",), ("31", "tap"),
    ),
    "sentences in the cells of a row": Input(
        {"a.csv": b"Question,Answer\nHow do I reset the pump? It hums.,Hold the lever. Wait 9 s.\n"
                  b"How do I mute the bell?,Press M.\n"},
        "How do I reset the pump?", ("Hold the lever [1].",), (".;", "[1] It"),
    ),
    "a sentence over a page break": Input(
        {"a.pdf": paged(FURNITURE)}, "How long does a boat without papers wait?",
        ("waits until the harbour master has spoken, for at most 9 hours",),
        ("Rules of the harbour", "- 3 -"),
    ),
    "colours of a terminal": Input(
        {"a.txt": b"\x1b[31mThe kiln\x1b[0m of Trin is \x1b[1mlit\x1b[0m on Mondays.\n"},
        "When is the kiln of Trin lit?", ("The kiln of Trin is lit on Mondays",), ("\x1b", "[31m"),
    ),
    "abbreviations within a sentence": Input(
        {"a.txt": b"Alpen Ltd. of St. Moritz ships v. 2.0 of the valve on Jan. 5 each year.\n"},
        "When does Alpen ship the valve?", ("Jan. 5 each year",),
    ),
    "a colon in a title": Input(
        {"a.md": b"---\ntitle: Notes: the well\n---\n\nThe well of Zuoz is 14 m deep.\n"},
        "How deep is the well of Zuoz?", ("14 m",), note="(line 2); it was read as text",
    ),
    "an at sign in front matter": Input(
        {"a.md": b"---\ntags: @home\n---\n\nThe loft of Bever is dry.\n"},
        "How is the loft of Bever?", ("dry",), note="it was read as text",
    ),
    "a text that begins with a rule": Input(
        {"a.md": b"---\n\nA rule is first. The bell of Guarda rings at 8:15.\n\n---\n\nEnd.\n"},
        "When does the bell of Guarda ring?", ("8:15",), ("---",),
    ),
    "a template in front matter": Input(
        {"a.md": b"---\ntitle: {{ title }}\n---\n\nThe shed of Madulain is green.\n"},
        "What colour is the shed of Madulain?", ("green",), note="it was read as text",
    ),
    "German with the English encoder": Input(
        {"a.txt": b"Der Ofen von Lavin wird am Samstag geheizt, weil dann alle backen.\n",
         "b.txt": "Die Brücke von Susch trägt zwei Tonnen und wird im Winter gesperrt.\n".encode()},
        "Wann wird der Ofen von Lavin geheizt?", ("Samstag",), ("Brücke",),
    ),
    "Russian with the English encoder": Input(
        {"a.txt": "Печь в деревне топят по субботам, когда все пекут хлеб для соседей.\n".encode(),
         "b.txt": "Мост через реку закрывают зимой, потому что на нём лежит снег.\n".encode()},
        "Когда топят печь?", ("субботам",), ("Мост",),
    ),
    "Chinese with the English encoder": Input(
        {"a.txt": "村里的炉子每逢星期六生火，因为那天大家都烤面包。\n".encode(),
         "b.txt": "河上的桥在冬天关闭，因为桥上有很多雪。\n".encode()},
        "炉子什么时候生火？", ("星期六",), ("桥",),
    ),
}  # fmt: skip
