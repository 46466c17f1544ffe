"""Manual pages."""

import re
from dataclasses import replace

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.table_header import LONGEST_LABEL, Cell
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

_MAN = re.compile(r"^[.'][ \t]*(?:TH|Dd|SH|Sh|so)\b", re.MULTILINE)
_FONT = re.compile(
    r"\\[fm](?:\[[^\]\\]*\]|\(..|.)|\\s[+-]?\d|\\[&/,|^%:c)]|\\[hvw]'[^'\\]*'|\\\".*"
    r"|\\n(?:\(..|\[[^\]\\]*\]|\S)"
)
_SIGNS = {"em": "—", "en": "–", "aq": "'", "dq": '"', "bu": "•", "co": "©", "lq": "“",
          "rq": "”", "oq": "‘", "cq": "’", "ti": "~", "ha": "^", "rs": "\\", "mi": "-",
          "e": "\\", "-": "-", "~": " ", " ": " ", "0": " ", "'": "'", "`": "`"}  # fmt: skip
_NAME = r"(?:\[([^\]\\]{1,40})\]|\((..)|(.))"
_SIGN, _STRING = re.compile(rf"\\{_NAME}"), re.compile(rf"\\\*{_NAME}")
# Strings of groff, of its `doc` macros and of pod2man; a page's `.ds` adds to them.
_STRINGS = {"Aq": "'", "lq": "“", "rq": "”", "R": "®", "Tm": "™", "S": "", "Lq": "“", "Rq": "”",
            "q": '"', "Gt": ">", "Lt": "<", "Am": "&", "Ba": "|", "L\"": '"', "R\"": '"',
            "C`": "", "C'": "", "--": "—", "PI": "pi"}  # fmt: skip
_DEFINITION = re.compile(r"[.'][ \t]*((?:ie|el|if)\b.{0,80}?)?ds[ \t]+(\S+)[ \t]*\"?(.*)")
# Longer ones could repeat each other without limit.
LONGEST_STRING = 200
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_NAMES = "PP P LP Pp HP br sp RS RE Ed El Bd Bl IP TP TQ It nf fi EX EE TS TE"
# Rows of a table without tbl: cells are separated by a tab or two spaces.
FEWEST_ROWS = 3
_CELL = re.compile(r"\S+(?: \S+)*")
_CODE = re.compile(r"[;{},\\]\s*\Z|^\s*[$#%>]")
# A cell over several lines, and the column formats, of tbl.
# Private characters stand for `.T&` and for a cell in `T{`.
_FORMAT_CHANGE, _PLACE = "\ue000", "\ue001"
_TBL_BLOCK = re.compile(r"T\{\n(.*?)\n?T\}", re.DOTALL)
_FORM = re.compile(r"[lrcnsaLRCNSAbBiIfw|^\s\d(),._-]+\.")
_TAB = re.compile(r"\btab *\((.)\)")
# Commands that begin a paragraph of the same list entry.
_WITHIN = ("sp", "br", "IP", "RS")
_PARAGRAPHS = frozenset(_NAMES.split())
_FONT_NAMES = "B I BR RB BI IB IR RI SM SB R"
_FONTS = frozenset(_FONT_NAMES.split())
_BARE_NAMES = "Ar Op Pa Em Sy Li Ql Cm Ic Va Vt Fn Fa Ev Er Dv Tn Sx Dq Sq Pq Aq Brq Qq"
_BARE = frozenset(_BARE_NAMES.split())


def convert(raw: bytes) -> Outline:
    """Return one outline of sections, options with descriptions, and code.

    Without troff commands it is plain text. Raises `LoadError` for a mere reference to another
    page, and for binary data.
    """
    text, encoding = decode(raw)
    if not _MAN.search(text[:20_000]):
        return Outline(text, encoding=encoding)
    page = _Page()
    for line in text.splitlines():
        page.read(line)
    page.flush()
    if not page.maker.blocks:
        raise LoadError("contains only a reference to another manual page")
    return page.maker.outline(page.title, encoding)


class _Page:
    def __init__(self) -> None:
        self.maker = TextMaker()
        self.title = ""
        self._words: list[str] = []
        self._term = ""
        self._paragraphs: list[str] = []
        self._strings = dict(_STRINGS)
        self._depth = 0
        self._wants_term = self._is_tbl = self._is_code = self._is_left_out = self._in_columns = (
            False
        )
        self._name = ""

    def read(self, line: str) -> None:
        if self._is_left_out:  # definition of a macro
            self._is_left_out = line.rstrip() != ".."
        elif not line.startswith((".", "'")):
            self._take(self._plain(line))
        elif definition := _DEFINITION.match(line):
            condition, name, text = definition.groups()
            if not (self._depth or condition) or name not in self._strings:
                self._strings[name] = self._filled(text.partition('\\"')[0])[:LONGEST_STRING]
        else:
            self._depth += line.count("\\{") - line.count("\\}")
            self._obey(*line[1:].strip().replace("\\ ", "\\~").partition(" ")[::2])

    def _obey(self, name: str, arguments: str) -> None:
        values = [(m[1] if m[1] is not None else m[2]) for m in _ARGUMENT.finditer(arguments)]
        values = [self._plain(value) for value in values if not value.startswith('\\"')]
        if name in ("TH", "Dt") and values:
            section = "".join(values[1:2])
            self.title = f"{values[0].lower()}({section})" if section else values[0]
        elif name in ("SH", "Sh", "SS", "Ss"):
            self.flush()
            self._is_tbl = False
            self.maker.heading(" ".join(values), 1 if name in ("SH", "Sh") else 2)
        elif name in ("de", "ig"):
            self._is_left_out = True
        elif name == "T&":
            self._words.append(_FORMAT_CHANGE)
        elif name in _PARAGRAPHS:
            if self._is_tbl and name != "TE":
                return
            if self._in_columns and name == "It":
                cells = values[1:] if values[:1] and values[0] in _BARE else values
                self._words.append("\t".join(" ".join(cells).split(" Ta ")))
                return
            self._end_paragraph(name, values)
            self._begin(name, values)
        elif name in _FONTS:
            self._take(("" if len(name) == 2 and name != "SM" else " ").join(values))
        elif name in ("Nm", "Fl", "Xr", "Nd") or name in _BARE:
            self._take(self._described(name, values))

    def _begin(self, name: str, values: list[str]) -> None:
        self._in_columns = name == "Bl" and "-column" in values
        self._is_tbl = name == "TS"
        if name in ("nf", "EX", "Bd", "TS") or self._in_columns:
            self._is_code = True
        elif name in ("fi", "EE", "Ed", "TE", "El"):
            self._is_code = False
        elif name in ("TP", "TQ"):
            self._wants_term = True
        elif name in ("IP", "It") and values:
            self._term = values[0] if name == "IP" else self._described(values[0], values[1:])

    def _described(self, name: str, values: list[str]) -> str:
        if name == "Fl":
            values = [value for value in values if value not in _BARE]
            return " ".join(f"-{v}" if not n else v for n, v in enumerate(values)) or "-"
        if name == "Nm":
            self._name = self._name or (values[0] if values else "")
            return " ".join(values) or self._name
        if name == "Nd":
            return f"— {' '.join(values)}"
        if name == "Xr" and len(values) > 1:
            return f"{values[0]}({values[1]})"
        return " ".join(v for v in values if v not in _BARE and v != "Fl")

    def _take(self, words: str) -> None:
        if self._wants_term and words.strip():
            self._term, self._wants_term = one_line(words), False
        elif self._is_code or words.strip():
            self._words.append(words)
        else:
            self._end_paragraph("sp", [])

    def _end_paragraph(self, name: str, values: list[str]) -> None:
        words = one_line(" ".join(self._words))
        is_name = words.endswith("=") or (words[-1:] not in ".:;!?," and len(words) < LONGEST_LABEL)
        if name == "RS" and not self._is_code and not self._term and is_name:
            self._term, self._words = words, []
        elif self._is_code or not self._term or name not in _WITHIN or (name == "IP" and values):
            self.flush()
        elif words:
            self._paragraphs.append(words)
            self._words = []

    def flush(self) -> None:
        """Write the words since the last block."""
        words, self._words = self._words, []
        paragraphs, self._paragraphs = self._paragraphs, []
        term, self._term = self._term, ""
        if self._is_code and (rows := _rows(words)):
            self.maker.table([[Cell(cell) for cell in row] for row in rows])
        elif self._is_code:
            self.maker.add("code", "\n".join(f"    {line}" for line in words).strip("\n"))
        elif term:
            parts = [*paragraphs, one_line(" ".join(words))]
            text = "\n    ".join(filter(None, [term, *parts]))
            self.maker.add("list" if paragraphs else "item", text, label=term[:LONGEST_LABEL])
            if paragraphs:  # the name stays with the first paragraph
                block = self.maker.blocks[-1]
                name, first, *others = block.children
                children = (replace(name, end=first.end), *others)
                self.maker.blocks[-1] = replace(block, children=children)
        else:
            self.maker.add("text", one_line(" ".join(words)).removesuffix("•"))

    def _plain(self, text: str) -> str:
        text = _FONT.sub("", self._filled(text)).replace('""', '"')
        return _SIGN.sub(lambda sign: _SIGNS.get(sign[1] or sign[2] or sign[3], ""), text)

    def _filled(self, text: str) -> str:
        return _STRING.sub(lambda name: self._strings.get(name[1] or name[2] or name[3], ""), text)


def _rows(lines: list[str]) -> list[list[str]]:
    form = next((at for at, line in enumerate(lines) if _FORM.fullmatch(line.strip())), -1)
    if form >= 0:
        option = _TAB.search("\n".join(lines[:form]))
        return _tbl_rows(lines[form + 1 :], option[1] if option else "\t")
    lines = [line for line in lines if line.strip(" _=")]
    if len(lines) < FEWEST_ROWS or any(map(_CODE.search, lines)):
        return []
    if all("\t" in line.strip() for line in lines):
        return [line.split("\t") for line in lines]
    found = [list(_CELL.finditer(line.expandtabs())) for line in lines]
    if min(map(len, found), default=0) < 2 or len(set(map(len, found))) > 1:
        return []
    for column in zip(*found, strict=True):
        starts, ends = ({cell.span()[side] for cell in column} for side in (0, 1))
        if len(starts) > 1 and len(ends) > 1:
            return []
    return [[cell[0] for cell in cells] for cells in found]


def _tbl_rows(lines: list[str], separator: str) -> list[list[str]]:
    blocks: list[str] = []

    def place(block: re.Match[str]) -> str:
        blocks.append(one_line(block[1]))
        return _PLACE

    rows = list[list[str]]()
    is_format = False
    for line in _TBL_BLOCK.sub(place, "\n".join(lines)).split("\n"):
        is_format = is_format or line == _FORMAT_CHANGE
        if not is_format and line.strip(" _="):
            cells = line.split(separator)
            rows.append([blocks.pop(0) if cell == _PLACE else cell.strip() for cell in cells])
        is_format = is_format and not _FORM.fullmatch(line.strip())
    width = max(map(len, rows), default=0)
    return [row + [""] * (width - len(row)) for row in rows] if width > 1 else []
