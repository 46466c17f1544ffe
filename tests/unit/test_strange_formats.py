"""Office files, tables and PDFs as people make them: nothing is lost without a note."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from docstokg.adapters.conversion.convert_lines import TextMaker
from docstokg.adapters.conversion.formats import convert
from docstokg.adapters.conversion.number_format import EPOCH, shown
from docstokg.adapters.conversion.table_header import Cell, column_names, header_rows
from docstokg.contracts.outline import Outline
from tests.strange_inputs import paged, table_rows
from tests.unit.test_office_formats import links, packed, paragraph, run, word, xlsx


def converted(suffix: str, raw: bytes) -> Outline:
    (outline,) = convert(suffix, raw)
    return outline


def sheet(*rows: Sequence[str], merged: Iterable[str] = (), further: str = "") -> Outline:
    """Convert a sheet of texts; `further`: its last rows in XML."""
    cells = [
        "".join(
            f'<c r="{column}{number}" t="inlineStr"><is><t>{text}</t></is></c>'
            for column, text in zip("ABCD", row, strict=False)
        )
        for number, row in enumerate(rows, 1)
    ]
    written = "".join(f"<row>{row}</row>" for row in cells)
    return converted(".xlsx", xlsx(written + further, merged=merged))


def lines(outline: Outline) -> list[str]:
    return [line for line in outline.text.split("\n") if line]


def test_word_boxes_are_read_and_hidden_text_noted() -> None:
    box = f"<w:txbxContent>{paragraph(run('Drain it below minus 5 degrees.'))}</w:txbxContent>"
    old = f"<w:txbxContent>{paragraph(run('The lid weighs 80 kg.'))}</w:txbxContent>"
    body = [
        paragraph(
            run("Goods in the "),
            "<w:r><w:t>In</w:t><w:noBreakHyphen/><w:t>Transit</w:t></w:r>",
            run(" area"),
            "<w:r><w:footnoteReference w:id='2'/></w:r>",
            "<w:r><w:sym w:font='Arial' w:char='00B0'/></w:r>",
            "<w:r><w:sym w:font='Wingdings' w:char='F0FC'/></w:r>",
        ),
        paragraph(
            run("The pump."),
            f"<w:r><mc:AlternateContent><mc:Choice>{box}</mc:Choice>"
            f"<mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:r>",
        ),
        paragraph(f"<w:r><w:pict><v:textbox>{old}</v:textbox></w:pict></w:r>"),
        paragraph(run("Seen."), run("Never shown.", "<w:vanish/>")),
        paragraph(run("Again shown.", "<w:vanish w:val='0'/>")),
    ]
    notes = (
        "<w:footnote w:id='0' w:type='separator'><w:p/></w:footnote>"
        f"<w:footnote w:id='2'>{paragraph(run('Rule by Okoro.'))}</w:footnote>"
    )
    document = word("".join(body), footnotes=notes, header=paragraph(run("Draft")))
    outline = converted(".docx", document)
    assert lines(outline) == [
        "Goods in the In-Transit area\u00b0",
        "Rule by Okoro.",
        "The pump.",
        "Drain it below minus 5 degrees.",
        "The lid weighs 80 kg.",
        "Seen.",
        "Again shown.",
        "Draft",
    ]
    assert sorted(outline.notes) == [
        "hidden texts not read: 1",
        "symbols of a font not read: 1",
    ]


def test_charts_of_slides_are_read_and_diagrams_noted() -> None:
    def points(tag: str, *values: str) -> str:
        points_xml = "".join(
            f"<c:pt idx='{n}'><c:v>{value}</c:v></c:pt>" for n, value in enumerate(values)
        )
        code = "<c:formatCode>0.0%</c:formatCode>" if tag == "val" else ""
        return f"<c:{tag}><c:cache>{code}{points_xml}</c:cache></c:{tag}>"

    chart = (
        "<c:chartSpace xmlns:c='c' xmlns:a='a'><c:title><a:t>Visitors</a:t></c:title>"
        f"<c:ser>{points('tx', 'Spring')}{points('cat', 'Oslo', 'Graz')}"
        f"{points('val', '0.977', '0.412')}"
        f"</c:ser><c:ser>{points('tx', 'Autumn')}{points('val', '0.81', '0.66')}</c:ser>"
        "</c:chartSpace>"
    )
    files = {
        "_rels/.rels": links(a="officeDocument ppt/presentation.xml"),
        "ppt/presentation.xml": "<p xmlns:r='http://schemas.openxmlformats.org/officeDocument/2006/"
        "relationships'><sldId r:id='s'/></p>",
        "ppt/_rels/presentation.xml.rels": links(s="slide slides/one.xml"),
        "ppt/slides/one.xml": "<s><sp><p><r><t>Hello</t></r></p></sp></s>",
        "ppt/slides/_rels/one.xml.rels": links(c="chart ../charts/chart1.xml"),
        "ppt/charts/chart1.xml": chart,
        "ppt/diagrams/data1.xml": "<d><t>Step one</t></d>",
    }
    outline = converted(".pptx", packed(files))
    assert lines(outline) == [
        "Hello",
        "Visitors",
        "Oslo; Spring: 97.7%; Autumn: 81.0%.",
        "Graz; Spring: 41.2%; Autumn: 66.0%.",
    ]
    assert outline.notes == ("diagrams not read: 1",)


def table(*rows: str) -> list[list[Cell]]:
    """Read rows of cells between bars; `*` makes a cell bold."""
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return [[Cell(cell.strip("*"), strong=cell.startswith("*")) for cell in row] for row in cells]


HEADERS: dict[str, tuple[list[list[Cell]], str]] = {
    "years": (
        table("Club | 2021 | 2022", "Juniors | 31 | 35", "Seniors | 52 | 49"),
        "Club | 2021 | 2022",
    ),
    "periods": (
        table("Shop | Q1 2023 | Q2 2023", "Oak | 1.2 | 3", "Elm | 4 | 5.5"),
        "Shop | Q1 2023 | Q2 2023",
    ),
    "seasons": (table("| 2021/22 | 2022/23", "Rain | 41 mm | 63 mm"), " | 2021/22 | 2022/23"),
    "codes": (table("Bolt | M4 | M6", "Torque | 2.8 Nm | 9.5 Nm"), "Bolt | M4 | M6"),
    "sizes": (table("Size | 36 | 38", "Length | 70.5 cm | 72 cm"), "Size | 36 | 38"),
    "corner": (table("| 10 | 20", "Beech | 4 | 9", "Larch | 5 | 11"), " | 10 | 20"),
    "bold": (table("*Dose | *5 | *10", "Adult | 1 | 2", "Child | 3 | 4"), "Dose | 5 | 10"),
    "words": (table("Name | Room", "Mara | B 204", "Ilse | C 11"), "Name | Room"),
    "two rows": (
        table("Plant | Winter | | Summer |", "| Min | Max | Min | Max", "Fern | 3 | 9 | 14 | 26"),
        "Plant | Winter Min | Winter Max | Summer Min | Summer Max",
    ),
    "two rows of years": (
        table("Town | Rain | | Snow |", "| 2022 | 2023 | 2022 | 2023", "Oslo | 4 | 5 | 6 | 7"),
        "Town | Rain 2022 | Rain 2023 | Snow 2022 | Snow 2023",
    ),
    "data": (table("Anna | 31 | 35", "Ben | 52 | 49"), ""),
    "birth years": (table("Anna | 1990 | 2001", "Ben | 1985 | 1999"), ""),
    "facts": (table("Founded | 1990", "Seats | 240"), ""),
    "versions": (table("v6.12.0, v4.8.6 | Now tested", "v4.0.0 | Was added"), ""),
    "marks": (table("Anna | A1 | B2", "Ben | C3 | A2"), ""),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_may_contain_figures(name: str) -> None:
    rows, names = HEADERS[name]
    assert " | ".join(column_names(rows[: header_rows(rows)])) == names


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ("0.25", "0%", "25%"),
        ("0.3333", "0.0%", "33.3%"),
        ("-0.25", "0%;[Red]-0%", "-25%"),
        ("1.09375", "[h]:mm", "26:15"),
        ("0.5", "[h]:mm:ss", "12:00:00"),
        ("421", "00000", "00421"),
        ("1234.5", "#,##0.00", "1,234.50"),
        ("80000", '#,##0\\ "EUR"', "80,000 EUR"),
        ("12", "[$€-407] 0.00", "€ 12.00"),
        ("-3", "0;(0)", "(3)"),
        ("45292", "dd/mm/yyyy", "2024-01-01"),
        ("45292.5", "d.m.yy h:mm", "2024-01-01 12:00"),
        ("0.2708333", "h:mm", "06:30"),
        ("21.800000000000001", "", "21.8"),
        ("21.8", "General", "21.8"),
        ("1E-3", "0.00E+00", "0.001"),
        ("0.5", "# ?/?", "0.5"),
        ("12.50", "0.##", "12.5"),
        ("abc", "0.00", "abc"),
        ("1", "@", "1"),
        ("0.00694444444444", "mm:ss", "10:00"),
        ("1e400", "0.00", "1e400"),
        ("NaN", "0%;-0%", "NaN"),
        ("1234567", '0,," M"', "1 M"),
        ("0", "#", "0"),
        ("1e400", "yyyy", "1e400"),
    ],
)
def test_numbers_are_read_as_the_file_shows_them(value: str, code: str, text: str) -> None:
    assert shown(value, code, EPOCH) == text


def test_merged_cells_name_columns_and_fill_rows() -> None:
    outline = sheet(
        ("Plant", "Winter", "", "Note"),
        ("", "Min", "Max"),
        ("Fern", "3", "9", "shade"),
        ("", "4", "8"),
        merged=("A1:A2", "B1:C1", "D1:D2", "A3:A4"),
        further="<row><c r='A5'><f>SUM(B3)</f></c></row>",
    )
    text = " ".join(lines(outline))
    assert "Plant: Fern Winter Min: 3 Winter Max: 9 Note: shade" in text
    assert "Plant: Fern Winter Min: 4 Winter Max: 8" in text
    assert set(outline.notes) == {
        "formulas without a value not read: 1",
        "hidden sheets not read: 1",
    }


def test_separator_lines_and_open_quotes_in_tables() -> None:
    named = converted(".csv", b"sep=;\r\nName;Beds\r\nBirch;52\r\n")
    assert lines(named) == ["Name: Birch", "Beds: 52"]
    raw = b'id\tmemo\n77\t"never closed\n78\tprinter, floor 3\n79\t"two\nlines"\n80\t"a ""b"""\n'
    assert lines(converted(".tsv", raw)) == [
        "id: 77",
        'memo: "never closed',
        "id: 78",
        "memo: printer, floor 3",
        "id: 79",
        "memo: two lines",
        "id: 80",
        'memo: a "b"',
    ]


def convert_pages(*parts: Any) -> Outline:
    return converted(".pdf", paged(*parts))


def test_page_furniture_stays_once_and_sentences_cross_pages() -> None:
    sentences = [
        "The mill opens at dawn.",
        "Whoever comes late asks the",
        "keeper, who has a key. Dogs stay out.",
        "The weir closes in March.",
        "Boats turn below it.",
    ]
    pages = [
        [(60, 810, "Mill rules"), (60, 700, text), (280, 30, f"Page {n} of 5")]
        for n, text in enumerate(sentences, 1)
    ]
    outline = convert_pages(pages)
    assert lines(outline) == [
        "The mill opens at dawn.",
        "Mill rules",
        "Page 1 of 5",
        "Whoever comes late asks the keeper, who has a key.",
        "Dogs stay out.",
        "The weir closes in March.",
        "Boats turn below it.",
    ]
    assert outline.metadata == {"page_furniture": ["Mill rules", "Page 1 of 5"]}


def test_lines_with_a_changing_number_are_no_furniture() -> None:
    pages = [
        [
            (60, 810, f"Invoice {n + 1} of 6"),
            (60, 700, "Oats, delivered."),
            (60, 30, f"Total {sum_} EUR"),
        ]
        for n, sum_ in enumerate((45, 45, 450, 12, 99, 7))
    ]
    table_lines = lines(convert_pages(pages))
    assert [line for line in table_lines if line.startswith("Total")] == [
        f"Total {sum_} EUR" for sum_ in (45, 45, 450, 12, 99, 7)
    ]
    assert [line for line in table_lines if line.startswith("Invoice")] == ["Invoice 1 of 6"]


def test_a_table_of_headers_only_is_not_lost() -> None:
    maker = TextMaker()
    maker.table(table("School | Fee", "Oak | 11 EUR"))
    heads = [[Cell("Branch", head=True), Cell("Staff", head=True)]]
    assert maker.table(heads, above=["School", "Fee"]) == []
    assert maker.outline().text.split("\n\n")[-2].strip() == "Branch: Staff."


def test_a_continued_table_keeps_column_names_unlike_another() -> None:
    def rows(name: str, first: int, fee: str) -> list[tuple[str, ...]]:
        return [(f"{name} {n}", f"{first + n}", fee.format(n)) for n in range(4)]

    heads = ("School", "Pupils", "Fee")
    pages = [
        table_rows(700, heads, *rows("Oak", 101, "1{} EUR")),
        table_rows(780, *rows("Elm", 201, "3{} EUR")),
        table_rows(780, heads, *rows("Ash", 301, "4{} EUR")),
        table_rows(780, ("Branch", "Staff", "Since"), *rows("Turku", 5, "199{}")),
    ]
    table_lines = lines(convert_pages(pages))
    assert "School: Oak 0; Pupils: 101; Fee: 10 EUR." in table_lines
    assert "School: Elm 0; Pupils: 201; Fee: 30 EUR." in table_lines
    assert "School: Ash 3; Pupils: 304; Fee: 43 EUR." in table_lines
    assert "Branch: Turku 0; Staff: 5; Since: 1990." in table_lines
    assert len(table_lines) == 16


def test_form_values_are_read_at_their_labels() -> None:
    fields = [
        b"<</Type/Annot/Subtype/Widget/FT/Tx/T(applicant)/V(Mara Stone)/Rect[150 695 400 715]>>",
        b"<</Type/Annot/Subtype/Widget/FT/Tx/T(plate)/TU(Licence plate)/V(KL 77)"
        b"/Rect[150 300 400 320]>>",
    ]
    form = "/AcroForm<</Fields[5 0 R 6 0 R]>>"
    outline = convert_pages([[(60, 700, "Applicant:")]], fields, form)
    assert lines(outline) == ["Applicant: Mara Stone.", "Licence plate: KL 77."]


@pytest.mark.parametrize(
    ("suffix", "raw"),
    [
        (".csv", b"valve,bar,checked by\nA7,8,\nB2,9,\n"),
        (".md", b"| valve | bar | checked by |\n|---|---|---|\n| A7 | 8 | |\n| B2 | 9 | |\n"),
        (
            ".html",
            b"<table><tr><th>valve<th>bar<th>checked by</tr>"
            b"<tr><td>A7<td>8<td></tr><tr><td>B2<td>9<td></tr></table>",
        ),
    ],
)
def test_a_column_without_values_keeps_its_name(suffix: str, raw: bytes) -> None:
    outline = converted(suffix, raw)
    assert "checked by" in outline.text
    assert "A7" in outline.text and "B2" in outline.text


LEFT = (
    "The mill on the river",
    "was built in 1764. Its",
    "wheel turns in spring",
    "and never in the frost.",
)
RIGHT = (
    "Flour was sold at the",
    "market. A fire in 1811",
    "destroyed the old roof",
    "and the upper floor.",
)


def test_columns_of_prose_are_read_in_turn() -> None:
    outline = convert_pages([table_rows(700, *zip(LEFT, RIGHT, strict=True), step=13)])
    assert " ".join(lines(outline)) == " ".join((*LEFT, *RIGHT))


def test_sheet_rows_name_their_table() -> None:
    outline = sheet(
        *(("Stock",), ("Item", "Count"), ("Rope", "7")),
        (),
        *(("Orders",), ("Item", "Due"), ("Tar", "June")),
    )
    assert lines(outline) == ["Item (Stock): Rope", "Count: 7", "Item (Orders): Tar", "Due: June"]


def test_merged_titles_stand_above_a_sheet_header() -> None:
    outline = sheet(
        ("Prices", "", ""),
        ("From May", "", ""),
        ("Item", "Use", "Price"),
        ("Rope", "knots", "7"),
        ("Tar", "seams", "9"),
        merged=("A1:C1", "A2:C2"),
    )
    assert lines(outline)[:5] == ["Prices", "From May", "Item: Rope", "Use: knots", "Price: 7"]


MANUAL_TABLES = [
    (".nf\nHazard   Repair\nGas      Fuel\nTire     Spare\n.fi", "Hazard: Gas; Repair: Fuel."),
    (".TS\nl l.\nSign\tUse\nT{\nred\nT}\tstop\n.TE", "Sign: red; Use: stop."),
    (".TS\ntab(@);\nl l.\nSign@Use\nT{\nred\nT}@stop\n.TE", "Sign: red; Use: stop."),
    (
        ".TS\nallbox tab(:);\nlB lB.\nT{\nSign\nT}:T{\nUse\nT}\n.T&\nl l\nl l.\nT{\nred\nT}:T{\n"
        "stop: a\n.sp\nfull stop\nT}\nT{\nblue\nT}:T{\ngo\nT}\n.TE",
        "Sign: red; Use: stop: a full stop.",
    ),
    (".Bl -column a b\n.It Em Sign Ta Use\n.It red Ta stop\n.It b Ta go\n.El", "Sign: b; Use: go."),
]


@pytest.mark.parametrize(("table", "row"), MANUAL_TABLES)
def test_manual_tables_are_read_by_row(table: str, row: str) -> None:
    outline = converted(".man", f".TH CARDS 6\n.SH GAME\n{table}\n".encode())
    assert row in lines(outline)


MANUAL_TEXTS = [
    (".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n", "APT\\*(Aqs default", "APT's default"),
    ('.ds vs 7\\-b\\" note\n', "Release \\*(vs of \\*[vs].", "Release 7-b of 7-b."),
    (".ds x lion\n.ds y \\*xs\n.ds x bear\n", "Two \\*y.", "Two lions."),
    ("", "\\*(lqa\\*(rq \\*R \\*(Tm \\*[Gt]", "“a” ® ™ >"),
    ("", "It\\[aq]s \\[lq]a\\[rq]", "It's “a”"),
    (".ds C+ C\\v'-.1v'\\h'-1p'\\s-2+\\s0+\n", "The \\*(C+ language", "The C++ language"),
    ("", ".ie n \\{\\\n\\h'-04'\\(bu\\c\n.\\}\n.el \\{\\\n.IP \\(bu 2\n.\\}\nFish", "•\n    Fish"),
    ("", ".PP\n\\fIa=\\fR\n.RS 4\nO.\n.sp\nP.\n.RE\nQ.", "a=\n    O.\n    P.\n\nQ."),
]


@pytest.mark.parametrize(("head", "body", "text"), MANUAL_TEXTS)
def test_manual_strings_signs_and_entries_are_text(head: str, body: str, text: str) -> None:
    outline = converted(".man", f"{head}.TH A 1\n.SH B\n{body}\n".encode())
    assert outline.text == f"B\n\n{text}\n\n"
    parts = [outline.text[part.start : part.end] for b in outline.blocks for part in b.children]
    assert parts in ([], ["a=\n    O.\n", "    P.\n"])


def test_manual_strings_never_grow_without_limit() -> None:
    doubled = "".join(f".ds {b} \\*{a}\\*{a}\n" for a, b in pairwise("abcdefghijklmnopqrst"))
    outline = converted(".man", f".ds a lion\n{doubled}.TH A 1\n.SH B\n\\*t\n".encode())
    assert outline.text == f"B\n\n{'lion' * 50}\n\n"


def test_yaml_records_are_passages() -> None:
    text = "regions:\n  - name: north\n    quota: 120\n  - name: south\n    quota: 80\nbeta: yes\n"
    outline = converted(".conf", text.encode())
    assert [text[block.start : block.end].split()[2] for block in outline.blocks] == [
        "north",
        "south",
    ]
