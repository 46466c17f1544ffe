"""Manual pages."""

import re

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

_MAN = re.compile(r"^[.'][ \t]*(?:TH|Dd|SH|Sh|so)\b", re.MULTILINE)
_FONT = re.compile(
    r"\\f(?:\[[^\]]*\]|\(..|.)|\\s[+-]?\d|\\[&/,|^%:c)]|\\\*?\[[^\]]*\]|\\\".*|\\n\S"
)
_SIGNS = {"(em": "—", "(en": "–", "(aq": "'", "(dq": '"', "(bu": "•", "(co": "©", "(lq": "“",
          "(rq": "”", "(oq": "‘", "(cq": "’", "(ti": "~", "(ha": "^", "(rs": "\\", "(mi": "-",
          "e": "\\", "-": "-", "~": " ", " ": " ", "0": " ", "'": "'", "`": "`"}  # fmt: skip
_SIGN = re.compile(r"\\(\*?\(..|.)")
_ARGUMENT = re.compile(r'"((?:[^"]|"")*)"?|(\S+)')
_NAMES = "PP P LP Pp HP br sp RS RE Ed El Bd Bl IP TP TQ It nf fi EX EE TS TE"
# Rows of a table without tbl: cells are separated by a tab or two spaces.
FEWEST_ROWS = 3
_CELL = re.compile(r"\S+(?: \S+)*")
_CODE = re.compile(r"[;{},\\]\s*\Z|^\s*[$#%>]")
# A cell over several lines, and the column formats, of tbl.
_TBL_BLOCK = re.compile(r"T\{\n(.*?)\n?T\}", re.DOTALL)
_FORM = re.compile(r"[lrcnsaLRCNSAbBiIfw|^\s\d(),._-]+\.")
_TAB = re.compile(r"\btab *\((.)\)")
_PARAGRAPHS = frozenset(_NAMES.split())
_FONT_NAMES = "B I BR RB BI IB IR RI SM SB R"
_FONTS = frozenset(_FONT_NAMES.split())
_BARE_NAMES = "Ar Op Pa Em Sy Li Ql Cm Ic Va Vt Fn Fa Ev Er Dv Tn Sx Dq Sq Pq Aq Brq Qq"
_BARE = frozenset(_BARE_NAMES.split())


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline of sections, options with descriptions, and code.

    Without troff commands it is plain text. Raises `LoadError` for a mere reference to another
    page, and for binary data.
    """
    text, encoding = decode(raw)
    if not _MAN.search(text[:20_000]):
        return (Outline(text, encoding=encoding),)
    page = _Page()
    for line in text.splitlines():
        page.read(line)
    page.flush()
    if not page.maker.blocks:
        raise LoadError("contains only a reference to another manual page")
    return (page.maker.outline(page.title, encoding),)


class _Page:
    def __init__(self) -> None:
        self.maker = TextMaker()
        self.title = ""
        self._words: list[str] = []
        self._term = ""
        self._wants_term = self._is_code = self._is_left_out = self._in_columns = False
        self._name = ""

    def read(self, line: str) -> None:
        if self._is_left_out:  # definition of a macro
            self._is_left_out = line.rstrip() != ".."
            return
        if not line.startswith((".", "'")):
            self._take(_plain(line))
            return
        name, _, arguments = line[1:].strip().partition(" ")
        values = [(m[1] if m[1] is not None else m[2]) for m in _ARGUMENT.finditer(arguments)]
        values = [_plain(value) for value in values if not value.startswith('\\"')]
        if name in ("TH", "Dt") and values:
            section = "".join(values[1:2])
            self.title = f"{values[0].lower()}({section})" if section else values[0]
        elif name in ("SH", "Sh", "SS", "Ss"):
            self.flush()
            self.maker.heading(" ".join(values), 1 if name in ("SH", "Sh") else 2)
        elif name in ("de", "ig"):
            self._is_left_out = True
        elif name in _PARAGRAPHS:
            if self._in_columns and name == "It":
                cells = values[1:] if values[:1] and values[0] in _BARE else values
                self._words.append("\t".join(" ".join(cells).split(" Ta ")))
                return
            self.flush()
            self._begin(name, values)
        elif name in _FONTS:
            self._take(("" if len(name) == 2 and name != "SM" else " ").join(values))
        elif name in ("Nm", "Fl", "Xr", "Nd") or name in _BARE:
            self._take(self._described(name, values))

    def _begin(self, name: str, values: list[str]) -> None:
        self._in_columns = name == "Bl" and "-column" in values
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
            self.flush()

    def flush(self) -> None:
        words, self._words = self._words, []
        term, self._term = self._term, ""
        if self._is_code and (rows := _rows(words)):
            self.maker.table([[Cell(cell) for cell in row] for row in rows])
        elif self._is_code:
            self.maker.add("code", "\n".join(f"    {line}" for line in words).strip("\n"))
        elif term:
            body = one_line(" ".join(words))
            self.maker.add("item", f"{term}\n    {body}" if body else term, label=term[:80])
        else:
            self.maker.add("text", one_line(" ".join(words)))


def _rows(lines: list[str]) -> list[list[str]]:
    text = _TBL_BLOCK.sub(lambda block: one_line(block[1]), "\n".join(lines))
    lines = [line for line in text.split("\n") if line.strip(" _=")]
    form = next((at for at, line in enumerate(lines) if _FORM.fullmatch(line)), -1)
    if option := _TAB.search("\n".join(lines[: max(form, 0)])):
        lines = [line.replace(option[1], "\t") for line in lines]
    if form < 0 and (len(lines) < FEWEST_ROWS or any(map(_CODE.search, lines))):
        return []
    lines = lines[form + 1 :]
    if lines and all("\t" in line.strip() for line in lines):
        return [line.split("\t") for line in lines]
    found = [list(_CELL.finditer(line.expandtabs())) for line in lines]
    if min(map(len, found), default=0) < 2 or len(set(map(len, found))) > 1:
        return []
    for column in zip(*found, strict=True):
        starts, ends = ({cell.span()[side] for cell in column} for side in (0, 1))
        if len(starts) > 1 and len(ends) > 1:
            return []
    return [[cell[0] for cell in cells] for cells in found]


def _plain(text: str) -> str:
    text = _FONT.sub("", text).replace('""', '"')
    return _SIGN.sub(lambda match: _SIGNS.get(match[1], ""), text)
