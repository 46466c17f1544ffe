"""reStructuredText headings."""

import re

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.contracts.outline import Block, Outline

_HEADING = re.compile(
    r"(?:(?<=\A)|(?<=\n))(?:(?P<over>([!-/:-@[-`{-~])\2+)[ \t]*\r?\n)?"
    r"(?P<words>[ \t]*\S[^\n]*)\n(?P<under>(?P<sign>[!-/:-@[-`{-~])(?P=sign)+)[ \t]*(?=\r?\n|\Z)"
)
# A comment: an explicit markup start that is no directive, target, footnote or substitution.
_COMMENT = re.compile(
    r"^\.\.[ \t]+(?![^\s:]+::|[_\[|])[^\n]*\n?(?:[ \t]+\S[^\n]*\n?|[ \t]*\n(?=[ \t]+\S))*",
    re.MULTILINE,
)
_MARKS = re.compile(
    r":[\w:+-]{1,60}+:`([^`]{0,500}+)`|[`*|]{1,9}+([^`*|]{1,500}+)[`*|]{1,9}+_{0,2}"
)
# Underlines of this length may be shorter than their heading.
_SHORTEST = 4


def convert(raw: bytes) -> Outline:
    """Return one outline of reStructuredText with headings; raise `LoadError` for binary data."""
    text, encoding = decode(raw)
    levels: list[tuple[str, bool]] = []
    blocks: list[Block] = []
    for match in _HEADING.finditer(text):
        words, under, over = match["words"].strip(), match["under"], match["over"]
        above = text[text.rfind("\n", 0, max(0, match.start() - 1)) + 1 : match.start()]
        if (
            len(under) < min(len(words), _SHORTEST)
            or (over and over[0] != under[0])
            or (not over and (match["words"][0].isspace() or above.strip()))
            or not any(map(str.isalnum, words))
        ):
            continue
        style = under[0], bool(over)
        if style not in levels:
            levels.append(style)
        plain = " ".join(_MARKS.sub(lambda m: m[1] or m[2] or "", words).split())
        end = text.find("\n", match.end()) + 1 or len(text)
        level = min(levels.index(style) + 1, 6)
        blocks.append(Block("heading", match.start(), end, level, plain))
    title = blocks[0].label if blocks and blocks[0].level == 1 else ""
    spans = (match.span() for match in _COMMENT.finditer(text))
    blocks += [
        Block("gap", *span)
        for span in spans
        if not any(b.end > span[0] and b.start < span[1] for b in blocks)
    ]
    ordered = sorted(blocks, key=lambda block: block.start)
    return Outline(text, tuple(ordered), title, encoding)
