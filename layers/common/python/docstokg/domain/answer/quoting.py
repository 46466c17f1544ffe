"""How a quotation is written: on one line or as code, with its marker before the final stop."""

import re
from dataclasses import dataclass
from typing import Final

from docstokg.contracts.state import Block
from docstokg.domain.answer.citations import code_ranges, strip_markers
from docstokg.domain.answer.units import LONGEST, Unit
from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.words import visible

# `=<yes|no>` and ` [default: no]` behind an option's name.
_VALUES: Final = re.compile(r"=?<[^<>\n]{1,80}>|\s\[[^\[\]\n]{1,80}\]")
# The digit is looked for first: two stretches around it would be shared out in every way.
_BRACKETED: Final = re.compile(
    r"[\[\u3010\uff3b](?=[^\]\u3011\uff3d\n\d]{0,80}+\d)"
    r"([^\]\u3011\uff3d\n]{1,160}+)[\]\u3011\uff3d]"
)
# Signs of a place in a list, a table, a heading or a quotation; `**` opens bold letters.
_PLACE: Final = re.compile(r"\A(?:[#>+\u2022\u25cb\u00b7|\s]|\*(?!\*)|-\s)+")
ITEM: Final = re.compile(r"\n[^\S\n]*(?:[-*+\u2022\u25cb\u00b7]|\d{1,3}[.)])[^\S\n]+")
# A rule of one sign below (and above) a line makes it a title.
_RULED: Final = re.compile(
    r"(?:^|(?<=\n))(?:[^\S\n]*(?:={3,}|~{3,}|-{3,}|\^{3,})[^\S\n]*\n)?"
    r"(?:[^\n]*[^\s.!?:;,]\n)?[^\S\n]*(?:={3,}|~{3,}|-{3,}|\^{3,})[^\S\n]*(?:\n|\Z)"
)
_DEFINED: Final = re.compile(
    r"\A(?![-*+\u2022#>|]\s|\d{1,3}[.)]\s)([^\n]{0,60}[^\s.:;,!?])\n {4}(?=\S)"
)
# `[text](address)`, `[text][name]`, `[text][]`: what a reader of Markdown sees is the text.
_LINK: Final = re.compile(
    r"(?<![\w\])])!?\[([^\[\]]{1,200}+)\](?:\([^()\s]{0,400}+(?:\s[^()\n]{0,100}+)?\)|\[[^\[\]]{0,80}+\])"
)
# `:option:` before a name in back-ticks, and "`text <address>`_": roles and links of
# reStructuredText.
_ROLE: Final = re.compile(r"(?<![\w:]):(?:[A-Za-z][\w+.-]{0,20}+:){1,2}(?=`)")
_TARGET: Final = re.compile(r"`([^`<>]{1,200})\s<[^`<>]{1,400}+>`_{0,2}")
_REFERENCE: Final = re.compile(r"(?<!`)`([^`<>]{1,200}+)`_{1,2}(?!\w)")
_DIRECTIVE: Final = re.compile(r"\A\.\. ((?:[\w+.-]{1,20}+:)?[\w+.-]{2,30}+)::\s+")
_ADMONITION: Final = frozenset(
    ("attention", "caution", "danger", "error", "hint", "important", "note", "tip", "warning")
)
# `is called "classic."`
_QUOTED_STOP: Final = re.compile(r"(?<!\.)([.!?])([\"'\u201d\u2019)\]]{1,3})\Z")
# What ends one item before the "; " put between two.
_BEFORE_ITEM: Final = re.compile(r"(?<=:)\s*;|[.;,]\s*(?=; )")


@dataclass(frozen=True, slots=True)
class Quotation:
    """A unit of a block and what it is worth as an answer: see `quotations`."""

    value: float
    share: float
    place: int
    block: Block
    unit: Unit
    stems: frozenset[str]


def is_same_option(one: Quotation, other: Quotation) -> bool:
    """Tell whether two quotations are of one option of one passage, whose names lead them."""
    return (
        one.place == other.place and bool(one.unit.option) and one.unit.option == other.unit.option
    )


def cited(one: Quotation, *, bare: bool = False) -> str:
    """Write a quotation with its marker before the final stop, as in `text [1].`, on one line.

    Code keeps its lines, behind a line that says what it is and carries the marker. `bare`: what
    leads it has been said. "" for what would not read as one statement.
    """
    text, unit = visible(_untitled(one.block.text, one.unit)), one.unit
    marker = f"[{one.block.rank}]"
    if unit.kind == "code":
        code = visible(unit.shown or text)
        fence = "````" if "```" in code else "```"
        lead = _plain(unit.lead).rstrip(":.") or one.block.document_name
        return f"{lead} {marker}:\n\n{fence}\n{code}\n{fence}\n"
    if unit.kind == "row":
        return _marked(_plain(visible(unit.shown)), marker)
    listed = _BEFORE_ITEM.sub("", ITEM.sub("; ", text))
    lead = _VALUES.sub("", unit.lead) if unit.lead == unit.option else unit.lead
    plain = _plain(f"{lead}: {listed}" if lead and not bare else listed)
    if not bare and unit.opening and unit.end - unit.opening.start <= LONGEST:
        opening = visible(one.block.text[slice(*unit.opening)])
        plain = f"{_plain(opening)} {_plain(listed)}"
    sentences = [plain[span.start : span.end] for span in sentence_spans(plain)]
    whole = unit.option or len(unit.parts) >= len(sentences)
    if not sentences or not whole:
        return ""
    return " ".join(_marked(sentence, marker) for sentence in sentences)


def as_read(text: str) -> str:
    """Return a stretch of prose as a reader sees it: links and roles as their words.

    What stands in code stays as it is.
    """
    text = _DIRECTIVE.sub(_directive_read, text)
    if "`" in text:
        text = _REFERENCE.sub(r"\1", _TARGET.sub(r"\1", _ROLE.sub("", text)))
    if "](" not in text and "][" not in text:
        return text
    code = code_ranges(text)

    def word(link: re.Match[str]) -> str:
        in_code = any(start < at < end for start, end in code for at in link.span())
        return link[0] if in_code else link[1]

    return _LINK.sub(word, text)


def _directive_read(directive: re.Match[str]) -> str:
    return "" if directive[1].lower() in _ADMONITION else f"{directive[1]} "


def _untitled(text: str, unit: Unit) -> str:
    """Return a unit without titles that a rule underlines, and a term apart from its description.

    The term of a list of definitions stands alone at the left, the description four spaces in.
    """
    quote = _RULED.sub("\n", text[unit.start : unit.end])
    if unit.start and text[unit.start - 1] != "\n":
        return quote
    return _DEFINED.sub(r"\1: ", quote, count=1)


def _marked(sentence: str, marker: str) -> str:
    sentence = sentence.rstrip(" |")
    quoted = _QUOTED_STOP.search(sentence)
    if quoted is not None:
        # The marker stands before the stop, or the next sentence would begin with it.
        sentence = f"{sentence[: quoted.start()]}{quoted[2]}{quoted[1]}"
    body = sentence.rstrip(".!?\u2026\u3002;,")
    stop = sentence[len(body) :] or "."
    return f"{body} {marker}{'.' if stop[0] in '?;,' else stop[0]}"


def _plain(text: str) -> str:
    """Put a quotation on one line, without marks of its place in a list or heading."""
    text = as_read(" ".join(text.split()))
    text = _PLACE.sub("", text).strip()
    if text.count("**") % 2:
        text = text.removeprefix("**")
    if text.count("`") % 2:
        text = text.replace("`", "'")
    made, at = [], 0
    # The source's own reference numbers would read as markers of ours, except in code.
    for start, end in [*code_ranges(text), (len(text), len(text))]:
        made.append(_BRACKETED.sub(r"(\1)", strip_markers(text[at:start])))
        made.append(text[start:end])
        at = end
    return "".join(made)
