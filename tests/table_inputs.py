"""Forty tables in six formats, each with two questions for one cell."""

import csv
import html
import io
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import docx

from tests.strange_inputs import paged, saved, table_rows
from tests.unit.test_office_formats import xlsx

Rows = Sequence[Sequence[str]]


class Table(NamedTuple):
    """A table with its header rows; `parts`: its rows, in as many parts as it continues in."""

    title: str
    heads: Rows
    parts: Sequence[Rows]


class CellQuestion(NamedTuple):
    """A question for one cell of a file: the row's name, its cells, and the other rows' names."""

    file: str
    question: str
    row: str
    value: str
    others: tuple[str, ...]


YEARS = (
    ("Members of the clubs", "Club", "How many members did {row} have in {column}?",
     "Rowing Anchor,Fencing Star,Chess Circle,Archery Guild,Curling Stone"),
    ("Visitors of the museums", "Museum", "How many visitors came to the {row} in {column}?",
     "Clock Museum,Salt Museum,Tram Museum,Paper Mill,Bell Foundry,Silk House"),
    ("Power bought by each depot (MWh)", "Depot", "How much power did {row} buy in {column}?",
     "Norheim,Veska,Altorp,Brenna,Lundo"),
    ("Accidents by road", "Road", "How many accidents happened on the {row} in {column}?",
     "Harbour Road,Quarry Lane,Mill Street,Station Avenue,Abbey Hill"),
    ("Honey harvest in kg", "Apiary", "What was the harvest of the apiary {row} in {column}?",
     "Lindenhof,Heather Slope,Orchard End,Black Pond,Sunny Bank"),
    ("Loans from the library", "Department", "How often did the department {row} lend in {column}?",
     "Maps,Music,Manuscripts,Newspapers,Children"),
    ("Days with fog", "Station", "On how many days was there fog at {row} in {column}?",
     "Cape Orn,Dunmore,Skarvik,Tolna,Pendrey"),
    ("Rent of the kiosks in EUR", "Kiosk", "What rent did {row} pay in {column}?",
     "Kiosk Elm,Kiosk Ash,Kiosk Birch,Kiosk Cedar,Kiosk Larch"),
    ("Apprentices of the guild", "Trade", "How many apprentices did the {row} train in {column}?",
     "Coopers,Glaziers,Tanners,Masons,Saddlers,Weavers"),
    ("Bikes repaired", "Workshop", "How many bikes were repaired at {row} in {column}?",
     "Gate One,Gate Two,Old Pier,North Square,Canal Yard"),
    ("Water loss in percent", "District", "What was the water loss of {row} in {column}?",
     "Upper Vale,Lower Vale,Westbank,Eastbank,Old Town"),
    ("Tickets sold by line", "Line", "How many tickets were sold on line {row} in {column}?",
     "Red Arrow,Blue Comet,Green Fern,Yellow Kite,Silver Wave"),
    ("Students enrolled", "School", "How many students were enrolled at {row} in {column}?",
     "Marlow School,Penrith School,Oakham School,Whitby School,Tenby School"),
    ("Trees planted", "Park", "How many trees were planted in {row} in {column}?",
     "Hawthorn Park,Elder Park,Rowan Park,Alder Park,Maple Park"),
    ("Sales of the bakery in units", "Bread", "How many loaves of {row} were sold in {column}?",
     "Rye Crown,Spelt Ring,Oat Wedge,Malt Brick,Corn Star"),
    ("Ships piloted", "Pilot", "How many ships did {row} pilot in {column}?",
     "Anders,Bjarke,Carsten,Dagmar,Eskil,Frode"),
)  # fmt: skip
"""Title, name of the first column, question, and rows; the other columns are years."""

GROUPS = (
    ("Temperature of the greenhouses", "House", ("Day", "Night"), ("Lowest", "Highest"),
     "What is the {sub} temperature of {row} by {group}?",
     "Palm House,Fern House,Cactus House,Orchid House"),
    ("Prices of the ferry in EUR", "Route", ("Summer", "Winter"), ("Adult", "Child"),
     "What does the {group} ticket of the route {row} cost for an {sub}?",
     "Skerry Sound,Long Isle,Gull Rock,Saint Brand"),
    ("Staff of the clinics", "Clinic", ("Weekday", "Weekend"), ("Nurses", "Doctors"),
     "How many {sub} work at {row} on a {group}?",
     "Elmwood,Ashgrove,Birchfield,Cedarhurst,Maplewood"),
    ("Load of the bridges in tonnes", "Bridge", ("Single lane", "Both lanes"), ("Rated", "Tested"),
     "What is the {sub} load of the {row} with {group}?",
     "Iron Bridge,Stone Bridge,Rope Bridge,Swing Bridge"),
    ("Output of the mills", "Mill", ("First shift", "Second shift"), ("Sacks", "Bales"),
     "How many {sub} did {row} make in the {group}?",
     "Upper Mill,Lower Mill,Weir Mill,Forge Mill"),
    ("Speed of the boats in knots", "Boat", ("Calm sea", "Rough sea"), ("Cruising", "Maximum"),
     "What is the {sub} speed of {row} in a {group}?",
     "Petrel,Gannet,Fulmar,Puffin,Cormorant"),
    ("Places in the car parks", "Car park", ("Level A", "Level B"), ("Short stay", "Long stay"),
     "How many {sub} places does {row} have on {group}?",
     "Theatre,Market,Stadium,Hospital"),
    ("Doses of the feed in grams", "Animal", ("Morning", "Evening"), ("Hay", "Oats"),
     "How many grams of {sub} does the {row} get in the {group}?",
     "Pony,Donkey,Mule,Llama,Alpaca"),
    ("Pressure of the pumps in bar", "Pump", ("Idle", "Full load"), ("Inlet", "Outlet"),
     "What is the {sub} pressure of pump {row} at {group}?",
     "Kestrel,Merlin,Osprey,Harrier"),
    ("Hours of the pools", "Pool", ("Term", "Holidays"), ("Lanes", "Lessons"),
     "How many hours of {sub} does the pool {row} have in the {group}?",
     "Riverside,Hilltop,Seaview,Parkside"),
    ("Scores of the choirs", "Choir", ("Round one", "Round two"), ("Pitch", "Rhythm"),
     "What was the {sub} score of {row} in {group}?",
     "Larks,Thrushes,Wrens,Finches,Starlings"),
    ("Costs of the sheds in EUR", "Shed", ("Plan", "Actual"), ("Timber", "Roofing"),
     "What was the {group} cost of {sub} for the shed {row}?",
     "Boat shed,Tool shed,Wood shed,Garden shed"),
)  # fmt: skip
"""Title, first column, names over the columns, names of the columns, question, and rows."""

ASKED = "What is the {column} of {row}?"
CONTINUED = (
    ("Fees of the campsites", "Campsite", ("Tent fee", "Cabin fee", "Places"),
     ASKED, "Camp"),
    ("Keys of the lockers", "Locker", ("Key number", "Deposit", "Floor"),
     ASKED, "Locker"),
    ("Huts of the trail", "Hut", ("Beds", "Altitude", "Distance"),
     "How large is the {column} figure of {row}?", "Hut"),
    ("Valves of the plant", "Valve", ("Torque", "Diameter", "Weight"),
     ASKED, "Valve"),
    ("Courses of the college", "Course", ("Credits", "Lessons", "Room"),
     "How many {column} or what {column} has {row}?", "Course"),
    ("Wells of the county", "Well", ("Depth", "Yield", "Hardness"),
     ASKED, "Well"),
    ("Cables of the building", "Cable", ("Length", "Cores", "Fuse"),
     ASKED, "Cable"),
    ("Tenants of the arcade", "Tenant", ("Rent", "Area", "Service charge"),
     ASKED, "Shop"),
    ("Buoys of the fairway", "Buoy", ("Depth", "Period", "Range"),
     ASKED, "Buoy"),
    ("Looms of the hall", "Loom", ("Width", "Speed", "Threads"),
     ASKED, "Loom"),
    ("Piers of the lake", "Pier", ("Berths", "Draught", "Toll"),
     ASKED, "Pier"),
    ("Lamps of the stage", "Lamp", ("Power", "Angle", "Channel"),
     ASKED, "Lamp"),
)  # fmt: skip
"""Title, first column, other columns, question, and the word that begins each row's name."""

_NAMES = "Amber Basil Cobalt Daisy Ember Flint Garnet Hazel Indigo Jasper"
NAMED = _NAMES.split()

_YEARS = ("csv", "xlsx", "docx", "html", "md") * 3 + ("md",)
_GROUPS = ("csv", "xlsx", "docx", "html") * 3
_CONTINUED = ("csv", "xlsx", "docx", "html", "md", "pdf") * 2


def files_and_questions(seed: int = 7) -> tuple[dict[str, bytes], list[CellQuestion]]:
    """Return the files by name, and two questions for each."""
    pick = random.Random(seed)
    files, questions = {}, []
    for number, (table, question_of) in enumerate(_tables(pick)):
        form = (*_YEARS, *_GROUPS, *_CONTINUED)[number]
        name = f"{number:02}-{table.title.lower().replace(' ', '-')}.{form}"
        files[name] = WRITERS[form](table)
        rows = [row for part in table.parts for row in part]
        # The last part of a continued table is asked for: its header is on an earlier page.
        for row in pick.sample(list(table.parts[-1]), 2):
            column = pick.randrange(1, len(row))
            others = tuple(other[0] for other in rows if other is not row)
            questions.append(
                CellQuestion(name, question_of(row[0], column), row[0], row[column], others)
            )
    return files, questions


def about_other_rows(questions: Sequence[CellQuestion], seed: int = 7) -> list[str]:
    """Return each question with the name of a row that only another table has."""
    pick, changed = random.Random(seed), []
    for asked in questions:
        own = {asked.row, *asked.others}
        others = [other.row for other in questions if other.row not in own]
        changed.append(asked.question.replace(asked.row, pick.choice(others)))
    return changed


Asked = Callable[[str, int], str]
"""Returns the question for a row and the number of a column."""


def _tables(pick: random.Random) -> Iterator[tuple[Table, Asked]]:
    for title, first, question, rows in YEARS:
        start = pick.randrange(2012, 2021)
        years = [str(start + n) for n in range(4)]
        filled = _filled(rows.split(","), 4, pick)
        yield Table(title, [[first, *years]], [filled]), _by_column(question, years)
    for title, first, groups, subs, question, rows in GROUPS:
        heads = [[first, groups[0], "", groups[1], ""], ["", *subs, *subs]]
        yield Table(title, heads, [_filled(rows.split(","), 4, pick)]), _in(question, groups, subs)
    for title, first, columns, question, word in CONTINUED:
        filled = _filled([f"{word} {name}" for name in NAMED], 3, pick)
        yield (
            Table(title, [[first, *columns]], [filled[:5], filled[5:]]),
            _by_column(question, columns),
        )


def _by_column(question: str, columns: Sequence[str]) -> Asked:
    return lambda row, at: question.format(row=row, column=columns[at - 1].lower())


def _in(question: str, groups: Sequence[str], subs: Sequence[str]) -> Asked:
    return lambda row, at: question.format(
        row=row, group=groups[(at - 1) // 2].lower(), sub=subs[(at - 1) % 2].lower()
    )


def _filled(names: Sequence[str], columns: int, pick: random.Random) -> list[list[str]]:
    values = iter(pick.sample(range(12, 990), len(names) * columns))
    return [[name, *(str(next(values)) for _ in range(columns))] for name in names]


def _csv(table: Table) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    for part in table.parts:
        writer.writerows([*table.heads, *part])
    return out.getvalue().encode()


def _xlsx(table: Table) -> bytes:
    rows = [[table.title], [], *(row for part in table.parts for row in [*table.heads, *part])]
    lines = []
    for number, row in enumerate(rows, 1):
        cells = [f'<c r="{chr(65 + at)}{number}" {_typed(cell)}</c>' for at, cell in enumerate(row)]
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    return xlsx("".join(lines))


def _typed(cell: str) -> str:
    if cell.isdecimal():
        return f"><v>{cell}</v>"
    return f't="inlineStr"><is><t>{html.escape(cell)}</t></is>'


def _docx(table: Table) -> bytes:
    document = docx.Document()
    document.add_heading(table.title, 1)
    for number, part in enumerate(table.parts):
        if number:
            document.add_paragraph(f"{table.title}, continued")
        rows = [*table.heads, *part]
        grid = document.add_table(len(rows), len(rows[0]))
        for at, row in enumerate(rows):
            for column, value in enumerate(row):
                grid.cell(at, column).text = value
    return saved(document.save)


def _html(table: Table) -> bytes:
    parts = []
    for part in table.parts:
        rows = [
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in [*table.heads, *part]
        ]
        parts.append(f"<table>{''.join(rows)}</table>")
    body = f"<p>{table.title}, continued</p>".join(parts)
    return f"<html><body><h1>{table.title}</h1>{body}</body></html>".encode()


def _markdown(table: Table) -> bytes:
    lines = [f"# {table.title}", ""]
    for part in table.parts:
        head, *body_rows = [*table.heads, *part]
        lines += [_piped(head), _piped(["---"] * len(head)), *map(_piped, body_rows), ""]
    return "\n".join(lines).encode()


def _piped(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _pdf(table: Table) -> bytes:
    first, *further = table.parts
    title = (60, 780, table.title)
    pages = [table_rows(780, *part) for part in further]
    return paged([[title, *table_rows(740, *table.heads, *first)], *pages])


WRITERS: dict[str, Callable[[Table], bytes]] = {
    "csv": _csv, "xlsx": _xlsx, "docx": _docx, "html": _html, "md": _markdown, "pdf": _pdf,
}  # fmt: skip
