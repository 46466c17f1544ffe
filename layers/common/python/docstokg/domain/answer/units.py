"""What of a passage can be quoted by itself: a sentence, an item with its option, a row, code.

Borders are those stored at load; here they are put together again where a border would tear
apart what only means something whole.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

from docstokg.domain.answer import tables
from docstokg.domain.text.sentences import Span

Kind = Literal["prose", "row", "code", "command"]

LONGEST: Final = 450
_LONGEST_ITEM: Final = 350
_LONGEST_TITLE: Final = 10
_LEAST_CODE_LINES: Final = 2
_FENCE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_BLANK_LINES: Final = re.compile(r"\n[^\S\n]*\n")
_BLANK: Final = re.compile(r"\n(?:[^\S\n]*+\n)++")
_HEADING: Final = re.compile(r"#{1,6}[^\S\n]")
_LIST_ITEM: Final = re.compile(r"(?:[-*+\u2022\u25cb\u00b7]|\d{1,3}[.)])[^\S\n]")
# `-x, --extract, --get`, alone on its line or with two spaces before what it does.
# Further names may stand on lines of their own below the first.
_OPTION: Final = re.compile(
    r"(-{1,2}[A-Za-z0-9?][^\n]{0,90}?(?:\n[^\S\n]*+-{1,2}[A-Za-z0-9?][^\n]{0,60}+(?=\n)){0,4}+)"
    r"(?:[^\S\n]*\n|[^\S\n]{2,}(?=\S))"
)
# The same alone in its paragraph: what the option does stands below a blank line.
_OPTION_ALONE: Final = re.compile(r"[*_`]*(-{1,2}[A-Za-z0-9?][^\n]{0,90}?)[*_`]*")
_OPTION_NAME: Final = re.compile(r"(?<![\w-])-{1,2}[A-Za-z0-9][\w-]*")
# `.. option:: -j <jobs>` of reStructuredText: what it describes, with its description below.
_DIRECTIVE: Final = re.compile(
    r"\.\. (?P<kind>(?:[\w+.-]{1,20}+:)?[\w+.-]{2,30}+)::[^\S\n]+(?P<argument>\S[^\n]{0,200})"
)
_CODE_DIRECTIVE: Final = frozenset(
    ("code", "code-block", "highlight", "parsed-literal", "sourcecode")
)
# Directives whose argument names no thing that the text below describes.
_NO_THING: Final = frozenset(
    (
        *("attention", "caution", "danger", "deprecated", "error", "hint", "important", "note"),
        *("seealso", "tip", "versionadded", "versionchanged", "versionremoved", "warning"),
        *("admonition", "contents", "csv-table", "figure", "image", "include", "index"),
        *("list-table", "literalinclude", "math", "only", "raw", "rubric", "table", "toctree"),
    )
)
# A title over a rule, also between two.
_RULED: Final = re.compile(
    r"(?:([=~^\"'`#*+.:_-])\1{2,}+\n)?[^\S\n]*([^\n]{1,120})\n([=~^\"'`#*+.:_-])\3{2,}+\s*"
)
_NOTE: Final = re.compile(r"\.\. (?:versionadded|versionchanged|deprecated)::")
_CALL: Final = re.compile(r"[\s(=].*", re.DOTALL)
# A title on the line above, as manuals print it: EXIT STATUS, or words above an option.
_CAPITALS: Final = re.compile(r"[A-Z][A-Z0-9 ,/&'-]{3,70}\n[^\S\n]*")
_TITLE_LINE: Final = re.compile(
    r"[A-Z][^\n.:;!?]{2,60}\n[^\S\n]+(?=-{1,2}[A-Za-z0-9?])"
    r"|[A-Z][\w'/-]*(?: [\w'/-]+){3,9}\n[^\S\n]{5,}(?=[A-Z])"
)
_LINE_WIDTH: Final = 76
_DEEPER: Final = re.compile(r"\n([^\S\n]+)(?=\S)")
_LEANING: Final = re.compile(
    r"(?:it|its|this|these|those|they|their|he|she|such|here|then|therefore|thus|see also"
    r"|the (?:former|latter)|for example|in this case|(?:to|by|when|in) do(?:ing)? (?:so|this))\b",
    re.IGNORECASE,
)
_BUT: Final = re.compile(
    r"(?:however|but|instead|otherwise|the\s+(?:main\s+|only\s+)?differences?\s+(?:is|are))\b",
    re.IGNORECASE,
)
# "Most tries. Default: 5": of what, the sentence before says.
_DEFAULT: Final = re.compile(r"(?:default(?:s to)?|type|since|range) ?[:=]\s", re.IGNORECASE)
# "A file may have no package. This is called a virtual one": what is, the sentence before says.
_CALLED: Final = re.compile(
    r"(?:this|that|it|these|they) (?:is|are) (?:also |often )?(?:called|known as|termed)\b",
    re.IGNORECASE,
)
# "The sixth field (fs_passno). This field is used by fsck."
_BARE: Final = re.compile(r"[^.,:;!?\n]{2,50}\([^()\n]{1,40}\)\.")
_THIS: Final = re.compile(r"this (\w+)", re.IGNORECASE)
_COMMAND: Final = re.compile(r"[$%#>] \S")
# What a line of C, of a shell or of a data format ends with, and prose seldom does.
_CODE_LINE: Final = re.compile(r"(?:[;{}\\]|\*/|/>|\)\s*\{)[^\S\n]*(?:/\*[^\n]*\*/)?\s*\Z")
_BRACKETS: Final = re.compile(r"\([^()\n]{0,200}\)")
# `**Pool**: ...`, `pool: ...`, `Pool (HP:1): ...`, and a term alone on the line above.
_DEFINED: Final = re.compile(
    r"(?P<number>(?:\d{1,3}\.)+[^\S\n])?(?:[-*+\u2022]\s+)?"
    r"(?P<mark>\*\*|__|`)?(?P<term>[^\n*|`:.;!?()]{2,60}?)"
    r"(?(mark)(?P=mark))\s*(?:\([^()\n]{1,60}\)\s*)?(?::|\s[\u2013\u2014-])\s+(?=\S)"
    r"|(?P<above>[\w-]+(?: [\w-]+){0,2})\n[^\S\n]{3,}(?=\S)"
)
# `mask UNIT...`, `list-units [PATTERN...]`: a command and what it is given, above what it does.
_CALLED_WITH: Final = re.compile(
    r"([a-z][\w-]{1,40})"
    r"(?: (?:\[[^\]\n]{1,60}\]|[A-Z][A-Z0-9_|-]*|<[^>\n]{1,40}>)(?:\.{3}|\u2026)?)+"
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch to quote, text[start:end], made of the sentences `parts`.

    `lead`: what introduces it and belongs to it (an option's names, a line that ends with a
    colon, the heading above code), "" where nothing does. `option`: the names of the option it is
    about, `opening` where it stands what that option does. `head`: what it explains (a defined
    term, an option, a command, the first cell of a row). `shown`: how it reads where the text as
    it stands does not.
    `leaning`: it speaks of something the sentence before names. `heading`: the title above it.
    """

    start: int
    end: int
    kind: Kind
    parts: tuple[int, ...]
    lead: str = ""
    option: str = ""
    opening: Span | None = None
    head: str = ""
    shown: str = ""
    leaning: bool = False
    heading: str = ""


# Of a question's passages: what chooses among them and what quotes them read the same.
@lru_cache(maxsize=256)
def units(text: str, spans: tuple[tuple[int, int], ...]) -> tuple[Unit, ...]:
    """Put sentences together to what can be quoted, in order; headings and lone leads are none."""
    reader = _Reader(text, spans, _fences(text))
    at = 0
    while at < len(spans):
        at = reader.read(at) + 1
    return tuple(reader.made)


@dataclass(slots=True)
class _Reader:
    """Walks over the sentences of a text and keeps what stands above the one it is at."""

    text: str
    spans: Sequence[tuple[int, int]]
    fences: Sequence[Span]
    made: list[Unit] = field(default_factory=list)
    heading: str = ""
    lead: str = ""
    lead_part: tuple[int, ...] = ()
    option: str = ""
    opening: Span | None = None
    depth: int | None = None
    columns: tuple[str, ...] = ()

    def read(self, at: int) -> int:
        """Take the unit that begins with a sentence; the place of its last sentence."""
        start, end = self.spans[at]
        fence = next((f for f in self.fences if f.start < end and start < f.end), None)
        if fence is not None:
            return self._fenced(at, fence)
        body = self.text[start:end]
        fresh = at == 0 or self._parted(at - 1)
        if self._is_outside(start) if self.depth is not None else fresh or _LIST_ITEM.match(body):
            self.option, self.opening, self.depth = "", None, None
        if not body.startswith("|"):
            self.columns = ()
        directive = _DIRECTIVE.fullmatch(body) if self._parted(at) else None
        if directive is not None:
            return self._directive(at, directive)
        if _HEADING.match(body):
            self._titled(body.lstrip("#").split("\n")[0].strip())
        elif fresh and (title := _RULED.fullmatch(body)):
            self._titled(title[2].strip())
        elif body.startswith("|") and tables.cells(body.split("\n")[0]):
            self._row(at)
        elif fresh and self._is_listing(at):
            return self._listing(at)
        elif fresh and self._is_title(at):
            self._titled(" ".join(body.split()))
        elif body.rstrip().endswith(":") and len(body) <= LONGEST:
            self._leading(at)
        else:
            return self._sentence(at, fresh=fresh)
        return at

    def _titled(self, heading: str) -> None:
        self.heading, self.lead, self.lead_part = heading, "", ()

    def _parted(self, at: int) -> bool:
        """Tell whether a blank line follows a sentence."""
        return _BLANK.search(self.text, self.spans[at][1], self._next(at)) is not None

    def _next(self, at: int) -> int:
        return self.spans[at + 1][0] if at + 1 < len(self.spans) else len(self.text)

    def _fenced(self, at: int, fence: Span) -> int:
        last = at
        while last + 1 < len(self.spans) and self.spans[last + 1][0] < fence.end:
            last += 1
        begin = self.text.find("\n", fence.start, fence.end) + 1
        closing = self.text.rfind("\n", begin, fence.end)
        stop = closing if closing > begin and _FENCE.match(self.text, closing + 1) else fence.end
        if begin and self.text[begin:stop].strip():
            self._code(Span(begin, stop), range(at, last + 1))
        self.lead, self.lead_part = "", ()
        return last

    def _code(self, span: Span, own: range) -> None:
        """Take code whole, or, when it is long, its paragraphs one by one."""
        begin, stop = span
        text = self.text
        borders = [begin, *(m.end() for m in _BLANK_LINES.finditer(text, begin, stop)), stop]
        if stop - begin <= LONGEST:
            borders = [begin, stop]
        for a, b in pairwise(borders):
            parts = tuple(i for i in own if self.spans[i][0] < b and a < self.spans[i][1])
            if text[a:b].strip() and b - a <= LONGEST:
                end = a + len(text[a:b].rstrip())
                parts = (*self.lead_part, *(parts or (own[0],)))
                margin = self._indent(a)
                shown = _even(text[a - margin : end], torn=a == margin)
                lead = self.lead or self.heading
                unit = Unit(a, end, "code", parts, lead, shown=shown, heading=self.heading)
                self.made.append(unit)

    def _indent(self, at: int) -> int:
        """Count the spaces before a place on its line, 0 when it does not begin it."""
        line = self.text.rfind("\n", 0, at) + 1
        return at - line if not self.text[line:at].strip() else 0

    def _directive(self, at: int, directive: re.Match[str]) -> int:
        """Take what a directive describes with its description; code is what stands below it."""
        kind, argument = directive["kind"], directive["argument"]
        start = self.spans[at][0]
        below = self.spans[at + 1] if at + 1 < len(self.spans) else None
        if below is None or self._indent(below[0]) <= self._indent(start):
            return at
        if kind in _CODE_DIRECTIVE:
            end = self._set_off(self._indent(start), below[0])
            last = at + 1
            while last + 1 < len(self.spans) and self.spans[last + 1][0] < end:
                last += 1
            self._code(Span(below[0], end), range(at + 1, last + 1))
            self.lead, self.lead_part = "", ()
            return last
        parts = (at, at + 1)
        if _NOTE.match(self.text, *below) and at + 2 < len(self.spans):
            # "New in version 3": what it describes it as stands behind that.
            parts, below = (at, at + 2), self.spans[at + 2]
        if kind in _NO_THING or below[1] - start > LONGEST or self.text[below[0]] == ".":
            return at
        begin = start + directive.start("argument")
        names = " ".join(argument.split())
        if names.startswith("-") and parts[1] == at + 1:
            made = Unit(begin, below[1], "prose", parts, option=names, head=names)
        else:
            option = names if names.startswith("-") else ""
            head = option or _CALL.sub("", names)
            made = Unit(*below, "prose", parts, names, option, head=head)
        self.option, self.opening = made.option, Span(made.start, made.end)
        self.depth = self._indent(start) if made.option else None
        self.made.append(replace(made, heading=self.heading))
        self.lead, self.lead_part = "", ()
        return parts[1]

    def _is_outside(self, start: int) -> bool:
        """Tell whether what begins here is no deeper than the directive above that describes."""
        line = self.text.rfind("\n", 0, start) + 1
        depth = len(self.text[line:start]) - len(self.text[line:start].lstrip())
        return depth <= (self.depth or 0)

    def _set_off(self, depth: int, start: int) -> int:
        """Give the end of the lines from `start` on that are deeper than so many spaces."""
        end = start
        for line in self.text[start:].splitlines(keepends=True):
            shallow = len(line) - len(line.lstrip()) <= depth
            if end > start and line.strip() and shallow:
                break
            end += len(line)
        return start + len(self.text[start:end].rstrip())

    def _is_listing(self, at: int) -> bool:
        """Tell whether a paragraph of plain text is code.

        So when most of its lines end as code does, behind a prompt, or set off below a lead.
        """
        start, end = self._paragraph(at)
        body = self.text[start:end]
        if _COMMAND.match(body):
            return self._indent(start) > 0 or "\n" not in self.text[:start].strip(" ")
        if _is_program(body):
            return True
        if not self.lead_part or self.lead_part[-1] != at - 1 or _LIST_ITEM.match(body):
            return False
        above = self.spans[at - 1][0]
        deeper = self._indent(start) >= self._indent(above) + 2
        return deeper and "|" not in body[:1] and body[0] not in "-\"'" and body[-1] not in ".!?:"

    def _paragraph(self, at: int) -> Span:
        start = self.spans[at][0]
        blank = _BLANK_LINES.search(self.text, start)
        return Span(start, blank.start() if blank else len(self.text.rstrip()))

    def _listing(self, at: int) -> int:
        span = self._paragraph(at)
        last = at
        while last + 1 < len(self.spans) and self.spans[last + 1][0] < span.end:
            last += 1
        self._code(span, range(at, last + 1))
        return last

    def _is_title(self, at: int) -> bool:
        """Tell whether a sentence stands alone above another paragraph, as a title does."""
        body = self.text[slice(*self.spans[at])]
        alone = at + 1 < len(self.spans) and self._parted(at)
        plain = not any(char in ".:;!?,|()[]=" for char in body) and not _OPTION.match(body + "\n")
        short = "\n" not in body and 1 < len(body.split()) <= _LONGEST_TITLE
        return alone and plain and short and not _LIST_ITEM.match(body) and body[0].isupper()

    def _row(self, at: int) -> None:
        start, end = self.spans[at]
        body = self.text[start:end]
        if columns := tables.header(body):
            self.columns = columns
        elif shown := tables.row(body, self.columns):
            lead = " ".join(self.columns)
            head = _BRACKETS.sub("", tables.cells(body)[0])
            self.made.append(Unit(start, end, "row", (at,), lead, head=head, shown=shown))

    def _leading(self, at: int) -> None:
        """Keep what introduces the next units; with the list behind it, it is one itself."""
        start, end = self.spans[at]
        last = at
        while last + 1 < len(self.spans) and _LIST_ITEM.match(self.text, *self.spans[last + 1]):
            last += 1
        if last > at and self.spans[last][1] - start <= LONGEST:
            parts = tuple(range(at, last + 1))
            end_of_list = self.spans[last][1]
            self.made.append(Unit(start, end_of_list, "prose", parts, heading=self.heading))
        self.lead, self.lead_part = " ".join(self.text[start:end].split()), (at,)

    def _sentence(self, at: int, *, fresh: bool) -> int:
        start, end = self.spans[at]
        titled = _CAPITALS.match(self.text, start, end) or (
            self._breaks_off(start, end) and _TITLE_LINE.match(self.text, start, end)
        )
        if titled and titled.end() < end:
            self.heading = " ".join(titled[0].split())
            start = titled.end()
        body = self.text[start:end]
        last = at
        alone = self._alone(at, body)
        option = alone or _OPTION.match(body)
        command, begins = ("", start) if option else self._command(at)
        if alone:
            last = at + 1
        elif command:
            last = at + (begins >= end)
            last += self._leans_on(last)
            # "mask UNIT..." would be a sentence of its own; "dim UNIT" is read with the rest.
            start = begins if begins >= end else start
        elif option and self._explained(at, start, option[1]):
            # "This option makes ...": what an option does stands with its names.
            last = at + 1
        elif not option and self._qualified(at, start):
            last = at + 1
        end = self.spans[last][1]
        defined = _DEFINED.match(body)
        if defined and defined["above"] and not self._breaks_off(start, end):
            defined = None
        if defined and defined["number"]:
            start += defined.end("number")
        head = " ".join(option[1].split()) if option else command or _term(defined)
        if option:
            self.option, self.opening = head, Span(start, end)
        lead = "" if option else self.option
        self.made.append(
            Unit(
                start,
                end,
                "command" if command else "prose",
                tuple(range(at, last + 1)),
                lead,
                self.option,
                None if option else self.opening,
                head,
                leaning=self._leans(body, at, fresh=fresh) and not command,
                heading=command or self.heading,
            )
        )
        if not _LIST_ITEM.match(body):
            self.lead, self.lead_part = "", ()
        return last

    def _leans(self, body: str, at: int, *, fresh: bool) -> bool:
        """Tell whether a sentence needs what stands before it, or is the rest of a torn one."""
        torn = at == 0 and body[0].islower() and not _DEFINED.match(body)
        return torn or (bool(_LEANING.match(body)) and not fresh)

    def _breaks_off(self, start: int, end: int) -> bool:
        """Tell whether a line ends because something else begins, and not for want of room.

        So when the next line is deeper, or had room in this one where the depth is not known.
        """
        line = self.text.rfind("\n", 0, start) + 1
        lines = self.text[start:end].split("\n")
        if len(lines) < 2 or not lines[1].strip() or self.text[line:start].strip():
            return False
        depth = len(lines[1]) - len(lines[1].lstrip())
        if line:
            return depth > start - line
        width = max(_LINE_WIDTH, *(len(other) for other in lines))
        return depth + len(lines[0]) + 1 + len(lines[1].split()[0]) <= width

    def _alone(self, at: int, body: str) -> re.Match[str] | None:
        """Match the names of an option that are a paragraph, with what it does in the next one."""
        names = _OPTION_ALONE.fullmatch(body.strip())
        if names is None or at + 1 >= len(self.spans) or not self._parted(at) or body[-1] in ".:":
            return None
        start, end = self.spans[at + 1]
        below = self.text[start:end]
        if end - self.spans[at][0] > _LONGEST_ITEM or below[0] in "-#|" or below[-1] == ":":
            return None
        return names

    def _command(self, at: int) -> tuple[str, int]:
        """Return the command that a line calls, and where it begins to say what that does.

        Deeper, on the line below; "" for any other line.
        """
        start, end = self.spans[at]
        line = _CALLED_WITH.match(self.text, start, end)
        below = _DEEPER.match(self.text, line.end()) if line else None
        if line is None or below is None or len(below[1]) <= self._indent(start):
            return "", start
        if line.end() == end and at + 1 == len(self.spans):
            return "", start
        following = self.spans[at + (line.end() == end)]
        return (line[1], below.end()) if following[1] - start <= _LONGEST_ITEM else ("", start)

    def _leans_on(self, at: int) -> bool:
        """Tell whether the next sentence goes on about the same."""
        return self._goes_on(at, self.spans[at][0]) and bool(
            _LEANING.match(self.text, self._next(at))
        )

    def _explained(self, at: int, start: int, names: str) -> bool:
        """Tell whether the next sentence says what an option does: it leans on it or names it."""
        if not self._goes_on(at, start):
            return False
        follows = self.text[self._next(at) : self.spans[at + 1][1]]
        own = set(_OPTION_NAME.findall(names))
        return _LEANING.match(follows) is not None or bool(own & set(_OPTION_NAME.findall(follows)))

    def _qualified(self, at: int, start: int) -> bool:
        """Tell whether the next sentence takes back a part of this one, or ends its line.

        So too when it says what that is called, or what a bare name is.
        """
        follows = self._next(at)
        aside = any(one.match(self.text, follows) for one in (_BUT, _DEFAULT, _CALLED))
        if not aside and _BARE.fullmatch(self.text, start, self.spans[at][1]):
            noun = _THIS.match(self.text, follows)
            aside = noun is not None and f" {noun[1]} " in self.text[start : self.spans[at][1]]
        return self._goes_on(at, start) and aside

    def _goes_on(self, at: int, start: int) -> bool:
        if at + 1 >= len(self.spans) or self._parted(at):
            return False
        follows = self.spans[at + 1][1]
        return follows - start <= _LONGEST_ITEM and self.text[follows - 1] != ":"


def _is_program(paragraph: str) -> bool:
    """Tell whether at least two lines, and most, end as lines of a program do."""
    lines = paragraph.split("\n")
    ended = sum(_CODE_LINE.search(line) is not None for line in lines)
    return ended >= _LEAST_CODE_LINES and 2 * ended > len(lines)


def _term(defined: re.Match[str] | None) -> str:
    term = (defined["term"] or defined["above"]) if defined else ""
    return " ".join(term.split()) if len(term.split()) <= _LONGEST_TITLE // 2 else ""


def _even(text: str, *, torn: bool) -> str:
    """Take away the space that all lines of a piece of code begin with.

    Torn from what stood before, it has lost that of its first line: so where the next line is
    deeper than a bracket that closes at the margin of all the others.
    """
    first, _, rest = text.partition("\n")
    lines = [line for line in rest.split("\n") if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    closed = any(line[margin] in ")]}" for line in lines)
    if torn and margin and closed and first[:1].strip() and not lines[0][margin].strip():
        return f"{first}\n{textwrap.dedent(rest)}".rstrip()
    return textwrap.dedent(text).strip("\n").rstrip()


def _fences(text: str) -> list[Span]:
    spans: list[Span] = []
    opened: re.Match[str] | None = None
    for match in _FENCE.finditer(text):
        if opened is None:
            opened = match
        elif match[1][0] == opened[1][0] and len(match[1]) >= len(opened[1]):
            spans.append(Span(opened.start(), match.end()))
            opened = None
    if opened is not None:
        spans.append(Span(opened.start(), len(text)))
    return spans
