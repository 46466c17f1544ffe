"""Text segmentation."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from docstokg.domain.answer.citations import code_ranges, strip_markers
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.words import word_count

Kind = Literal["heading", "title", "head", "sentence", "item", "row", "code", "list"]
Borders = tuple[tuple[int, int], ...]

# Maximum characters of a unit; of a row, some cells are quoted.
LONGEST = 450
LEAST_WORDS = 3
_LONGEST_TITLE = 90
FENCES = ("```", "~~~")
QUESTION_MARKS = ("?", "\uff1f")
_LINE = re.compile(r"[^\s](?:[^\n]*[^\s])?")
_STRETCH = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_HEADING = re.compile(r"\A#{1,6}\s{1,99}+(?=\S)")
_UNDERLINED = re.compile(r"\A(?:[^\w\s]+\n)?([^\n]+)\n[^\S\n]*([=~^\"'`#*+.:_-])\2{2,}\Z")
# Struck-out text of Markdown is no statement.
STRUCK_OUT = re.compile(r"~~(?=\S)[^~\n]+~~ ?|<(s|del|strike)>[^<\n]*</\1> ?")
_RULE = re.compile(r"\s*[^\w\s]{3,}+\s*")
_MARK = r"(?:[-*+\u2022\u25cb\u00b7]|\(?(?:\d{1,3}|[a-z])[.)])[^\S\n]"
_ITEM = re.compile(r"\A(?:[-*+\u2022\u25cb\u00b7]|\d{1,3}[.)])\s+")
# "Question: Why? It hums.": a sentence after the question mark belongs to the question's line.
_ASKING = re.compile(r"[-*#\s]*Q(?:uestion)?\s?:(?!.*\bA(?:nswer)?\s?:).*\?")
# "Q: When?" and its reply "A: At noon."; elsewhere "A: ampere" is a definition.
_SPEAKER = re.compile(r"\A[QA]:\s+")
AT_ITEM = re.compile(rf"([^\S\n]*){_MARK}")
_ITEM_BELOW = re.compile(rf"[^\S\n]*\n(?:[^\S\n]*\n)?([^\S\n]*){_MARK}")
_BORDER = re.compile(r"(?<!\\)\|")
_CELLS = re.compile(r"\s\|\s")
# "Column: value", of a first cell after the name of the table ("Prices, net \u2014 Size: 1 l").
_FIELD = re.compile(
    r"(?:[^:;|{}=<>\"`\n]{1,80} \u2014 )?[^\s:;|{}=<>\"`][^:;|{}=<>\"`\n]{0,60}: \S"
)
_FIELDS = re.compile(r"; (?=[^;]{1,60}: )")
# A line of YAML, one of TOML or INI, and one with a value.
_SETTING = re.compile(r"(?:- )?[\w.\"'/-]{1,60}:(?: |\Z)|- \S|#")
_ASSIGNMENT = re.compile(r"[\w.\"'/-]{1,60}\s?=\s?\S|[#;]|\[{1,2}[^][\n]{1,99}\]{1,2}\Z")
_VALUE = re.compile(r"(?:- )?[\w.\"'/-]{1,60}(?:: +[^\s#]|\s?=\s?\S)|- \S")
# Characters above a line of YAML that are searched for its names.
_ABOVE = 2000
_PROMPT = re.compile(r"(?:[$%>] |>>> )\S")
_ENDS = re.compile(r"[.!?;,:\u2026\u3002\uff01\uff1f][\"')\]*_`\u201d\u2019]*\Z")
_STOPPED = re.compile(r"[.!?\u2026\u3002\uff01\uff1f][^\w\s]{0,9}(?:\s?\[[\d\s,]{1,20}\]){0,4}\Z")
_LONGEST_STOP = 80
# Characters before a sentence that are searched for its position in the line.
_NEAR = 99
# Words of a sentence that leans on the ones before it.
_BRIEF = 9


@dataclass(frozen=True, slots=True)
class Part:
    """A part at `text[start:end]`.

    `text`: without markers; a row includes column names. `above`: heading and
    announcement. `before`: previous sentence under the same heading, after a question
    (also in the heading) also the question. `lead`: the line with a colon
    that announces its list or code. `cells`, `columns`: for rows of tables.
    """

    start: int
    end: int
    kind: Kind
    text: str
    above: str = ""
    before: str = ""
    lead: str = ""
    cells: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    heading: str = ""

    @property
    def question(self) -> str:
        """Return the question, in the heading or before it, that it replies to first; else ""."""
        return self.before if self.before.endswith(QUESTION_MARKS) else ""

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Return name and value of each cell of a row, its key first; () without names."""
        if self.kind != "row":
            return ()
        if self.cells:
            same = len(self.columns) == len(self.cells)
            return tuple(zip(self.columns, self.cells, strict=True)) if same else ()
        pairs = [field.partition(": ") for field in _FIELDS.split(self.text)]
        complete = len(pairs) > 1 and all(name and value for name, _, value in pairs)
        return tuple((name, value) for name, _, value in pairs) if complete else ()


# The reader and the check of each sentence parse the same passages.
@lru_cache(maxsize=256)
def parts(text: str, borders: Borders = ()) -> tuple[Part, ...]:
    """Return the parts of a text in order; each code line and table row is a part.

    `borders`: sentence spans; computed if empty.
    """
    sequence: list[Part] = []
    heading = lead = before = key = ""
    columns: tuple[str, ...] = ()
    for start, stop, line_kind in _stretches(text, borders):
        end = start + len(_without_rule(text[start:stop]))
        plain = STRUCK_OUT.sub("", strip_markers(text[start:end])).strip()
        key = key if sequence and "\n\n" not in text[sequence[-1].end : start] else ""
        kind = line_kind or _kind(text, start, end, plain, in_record=bool(key))
        if kind in ("heading", "title"):
            plain = _HEADING.sub("", _UNDERLINED.sub(r"\1", plain)).strip("#*_ ")
            heading, lead, before = plain, "", _sentence_before("", kind, plain)
            sequence.append(Part(start, end, kind, plain))
            continue
        row = cells(plain.split("\n")[0]) if line_kind in ("head", "row") else ()
        columns = row if kind == "head" else columns if row else ()
        if kind in ("item", "sentence"):
            plain = _without_mark(plain, before)
        elif row and kind == "row":
            plain = read_row(row, columns)
        elif line_kind == "row":
            plain = _setting(text, start, plain)
        elif kind == "row":
            # The lines of a record after a sentence of a value repeat its key.
            first, *further = plain.splitlines()
            plain = in_one_line(f"{key}\n{plain}" if key else plain)
            key = key or (first if further else "")
        if sequence and sequence[-1].kind == "code" != kind:
            lead = ""
        above = f"{heading} {lead}".strip()
        sequence.append(Part(start, end, kind, plain, above, before, lead, row, columns, heading))
        if plain.endswith(":"):
            lead = plain
        elif kind == "sentence":
            lead = ""
        before = _sentence_before(before, kind, plain)
    return tuple(sequence)


def _without_mark(plain: str, before: str) -> str:
    """Return a text without its list mark, and without "Q:" or "A:" around a question."""
    plain = _ITEM.sub("", plain)
    is_spoken = (plain if plain.startswith("Q") else before).endswith(QUESTION_MARKS)
    return _SPEAKER.sub("", plain) if is_spoken else plain


def _sentence_before(before: str, kind: Kind, plain: str) -> str:
    if kind != "sentence" and not plain.endswith(QUESTION_MARKS):
        return before
    line = " ".join(plain.split())
    # The brief sentences after a question belong to it.
    is_reply = "?" in before and "?" not in line and len(line.split()) < _BRIEF
    # The limit keeps the sum of all `before` linear.
    return f"{before} {line}" if is_reply and len(before) < LONGEST else line


def _without_rule(piece: str) -> str:
    head, _, last = piece.rpartition("\n")
    is_rule = _RULE.fullmatch(last) and head[len(head.rstrip()) :].count("\n")
    return head.rstrip() if is_rule else piece


def _stretches(text: str, borders: Borders) -> Iterator[tuple[int, int, Kind | None]]:
    at = 0
    for begin, stop in (*fences(text), (len(text), len(text))):
        spans = borders or [(at + a, at + b) for a, b in sentence_spans(text[at:begin])]
        for a, b in spans:
            inside = _STRETCH.search(text, max(a, at), max(at, min(b, begin)))
            if inside is not None:
                yield from _lines(text, *inside.span())
        for line in _LINE.finditer(text, begin, stop):
            if not line[0].startswith(FENCES):
                yield (*line.span(), "code")
        at = stop


def fences(text: str) -> list[tuple[int, int]]:
    """Return the ranges of fenced code blocks."""
    return [span for span in code_ranges(text) if text[slice(*span)].lstrip().startswith(FENCES)]


def _lines(text: str, start: int, end: int) -> Iterator[tuple[int, int, Kind | None]]:
    lines = [line.span() for line in _LINE.finditer(text, start, end)]
    is_drawn = all(text[a] == "|" and cells(text[a:b]) for a, b in lines)
    if is_drawn or (len(lines) > 1 and all(cells(text[a:b]) for a, b in lines)):
        for place, (a, b) in enumerate(lines):
            if _is_rule(text[a:b]):
                continue
            is_ruled = place + 1 < len(lines) and _is_rule(text[slice(*lines[place + 1])])
            is_head = is_ruled or (place == 0 and not is_drawn)
            yield a, lines[place + 1][1] if is_ruled else b, "head" if is_head else "row"
    elif _is_code(text, start, lines[-1]):
        yield from ((*line, "code") for line in lines)
    elif _are_settings([text[a:b] for a, b in lines]):
        yield from ((a, b, "row") for a, b in lines if _VALUE.match(text, a, b))
    else:
        yield start, end, None


def _are_settings(lines: Sequence[str]) -> bool:
    """Return whether lines with a value are assignments, or YAML with a name of names below it."""
    has_names_below = any(line.endswith(":") for line in lines[:-1])
    form = _SETTING if has_names_below else _ASSIGNMENT
    return len(lines) > 1 and any(map(_VALUE.match, lines)) and all(map(form.match, lines))


def _setting(text: str, start: int, line: str) -> str:
    """Return a line at `text[start]` with the names above it: "limits.retries: 4".

    An assignment has its section: "[limits]" above "retries = 4" is "limits.retries = 4".
    """
    depth = start - text.rfind("\n", 0, start) - 1
    is_nested = _SETTING.match(line) is not None
    names = []
    for above in reversed(
        text[max(0, start - _ABOVE) : start].splitlines()[: -1 if depth else None]
    ):
        if above.startswith("[") and _ASSIGNMENT.match(above):
            names.append(above.strip("[]"))
            break
        indent = len(above) - len(above.lstrip(" -"))
        name = above.strip(" -").partition(" #")[0].rstrip(" :")
        if is_nested and name and indent < depth and not name.startswith("#"):
            depth = indent
            names.append(name)
    path = ".".join(reversed(names))
    value = line.removeprefix("- ")
    if '"' not in value and "'" not in value:  # no comment, if quoted
        value = value.partition(" #")[0].rstrip()
    joint = ": " if line.startswith("- ") and ": " not in value else "."
    return f"{path}{joint}{value}" if path else value


def _is_code(text: str, start: int, last: tuple[int, int]) -> bool:
    before = text[max(0, start - _NEAR) : start]
    depth = len(before) - (before.rfind("\n") + 1)
    is_plain = _ENDS.search(text[slice(*last)]) or AT_ITEM.match(text, start)
    is_announced = depth >= 2 and before.rstrip().endswith(":")
    return (is_announced and not is_plain) or _PROMPT.match(text, start) is not None


def _kind(text: str, start: int, end: int, plain: str, *, in_record: bool) -> Kind:
    if _HEADING.match(plain) or _UNDERLINED.match(plain):
        return "heading"
    lines = plain.splitlines()
    fields = lines if len(lines) > 1 else _FIELDS.split(plain)
    if (in_record or len(fields) > 1) and all(map(_FIELD.match, fields)):
        return "row"
    if _ITEM.match(plain):
        return "item"
    before = text[max(0, start - _NEAR) : start].rstrip(" \t")
    is_alone = before[-2:] in ("", "\n\n") and text[end : end + 2] == "\n\n" and len(lines) == 1
    if is_alone and len(plain) <= _LONGEST_TITLE and end + 2 < len(text):
        return "title" if plain.endswith("?") or not _ENDS.search(plain) else "sentence"
    return "sentence"


def cells(line: str) -> tuple[str, ...]:
    """Return the cells of a table line; () for other lines."""
    line = line.strip()
    if not line.startswith("|"):
        fields = _CELLS.split(line)
        return tuple(fields) if len(fields) > 1 else ()
    inner = _BORDER.split(line)[1:]
    if len(inner) < 2:
        return ()
    if not inner[-1].strip():
        inner = inner[:-1]
    return tuple(cell.replace("\\|", "|").strip() for cell in inner)


def _is_rule(line: str) -> bool:
    return "-" in line and "|" in line and not line.strip(":- |")


def read_row(row: Sequence[str], columns: Sequence[str]) -> str:
    """Return a row as text: its key, then its values, after column names if the counts agree.

    Empty values are omitted; an empty row raises IndexError.
    """
    named = columns if len(columns) == len(row) else [""] * len(row)
    pairs = zip(named[1:], row[1:], strict=True)
    values = [f"{name}: {cell}" if name else cell for name, cell in pairs if cell]
    return f"{row[0]}: {'; '.join(values)}" if values else row[0]


def in_one_line(text: str) -> str:
    """Join lines, with semicolons after those that do not end a sentence."""
    first, *others = text.splitlines() or [""]
    for line in others:
        first += (" " if first.rstrip().endswith((".", "!", "?", "\u3002")) else "; ") + line
    return first


@lru_cache(maxsize=256)
def units(text: str, borders: Borders = ()) -> tuple[Part, ...]:
    """Return the quotable parts, with each list and code block as a whole.

    Excludes headings, questions, list announcements and comments.
    """
    sequence = parts(text, borders)
    quotable: list[Part] = []
    at = 0
    while at < len(sequence):
        run = _run(text, sequence[at:])
        if run[0].kind == "code":
            quotable.append(_block(text, run))
        else:
            if run[0].kind == "item" and (whole := _list(run)) is not None:
                quotable.append(whole)
            quotable += (replace(part, text=" ".join(part.text.split())) for part in run)
        at += len(run)
    return tuple(part for part in quotable if _is_unit(text, part))


def _run(text: str, sequence: Sequence[Part]) -> Sequence[Part]:
    size = 1
    while size < len(sequence) and sequence[0].kind == sequence[size].kind in ("item", "code"):
        between = text[sequence[size - 1].end : sequence[size].start]
        if any(fence in between for fence in FENCES) or "\n\n" in between:
            break
        size += 1
    return sequence[:size]


def _block(text: str, lines: Sequence[Part]) -> Part:
    begin = text.rfind("\n", 0, lines[0].start) + 1
    code = textwrap.dedent(text[begin : lines[-1].end]).strip("\n")
    return replace(lines[0], end=lines[-1].end, text=code)


def _list(run: Sequence[Part]) -> Part | None:
    first = run[0]
    lead = first.lead or (first.above and first.before == first.question and f"{first.above}:")
    if not lead or len(run) < 2:
        return None
    texts = "; ".join(" ".join(item.text.split()).rstrip(".;,") for item in run)
    return replace(first, end=run[-1].end, kind="list", text=f"{lead} {texts}.")


def _is_unit(text: str, part: Part) -> bool:
    if part.kind in ("heading", "title", "head") or part.text.startswith("<!--"):
        return False
    is_long = part.kind != "row" and len(part.text) > LONGEST
    if is_long or part.text.rstrip("*_ ").endswith(QUESTION_MARKS):
        return False
    if asks(text, part):
        return False
    if part.kind not in ("sentence", "item"):
        return bool(part.text)
    is_brief = is_short(part.text) and not (part.kind == "sentence" and part.question)
    return not (is_brief or announces(text, part.start, part.end))


def asks(text: str, part: Part) -> bool:
    """Return whether a sentence is in the line of a question that begins with "Q:"/"Question:"."""
    line = text.rfind("\n", 0, part.start) + 1
    return part.kind == "sentence" and _ASKING.match(text, line, part.end) is not None


def is_short(text: str) -> bool:
    """Return whether a text has fewer than three words."""
    return word_count(text) < LEAST_WORDS


def announces(text: str, start: int, end: int) -> bool:
    """Return whether `text[start:end]` introduces a list: a final colon, or no stop before it."""
    line = text[start:end].rstrip()
    if line.endswith((":", "\uff1a")):
        return True
    below = _ITEM_BELOW.match(text, end)
    if below is None or is_stopped(line):
        return False
    item = AT_ITEM.match(text, text.rfind("\n", 0, start) + 1)
    return item is None or len(item[1]) < len(below[1])


def is_stopped(text: str) -> bool:
    """Return whether a text ends with a stop, ignoring closing marks and citation markers."""
    return _STOPPED.search(text[-_LONGEST_STOP:]) is not None
