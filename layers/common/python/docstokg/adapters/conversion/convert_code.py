"""Code, settings, TeX, Org."""

import re
from collections.abc import Callable
from itertools import pairwise

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.contracts.file_types import GENERATED, has_long_line
from docstokg.contracts.outline import Block, Outline
from docstokg.errors import LoadError

LONGEST_LABEL = 80
_WORDS = (
    "export default public private protected internal static final abstract async pub unsafe extern"
    " inline virtual override sealed partial open suspend const local"
)
_KINDS = (
    "def class func fun fn function interface trait struct enum impl module sub proc record"
    " namespace macro defmodule defp type object"
)
_DEFINITION = re.compile(
    rf"^[ \t]{{0,4}}(?:(?:{'|'.join(_WORDS.split())})\b(?:\([a-z]+\))?[ \t]+)*+"
    rf"(?:{'|'.join(_KINDS.split())})\b[ \t]+[\w*(<]"
    # C and Java: type, name and arguments, without a statement's end.
    r"|^(?!(?:if|for|while|switch|return|else|case|do|elif|with|import|from|print)\b)"
    r"[A-Za-z_][\w:<>,]*[ \t*&]+[\w:~]+\([^;={}\n]*\)?[ \t]*(?:const[ \t]*)?\{?[ \t]*$"
    r"|^CREATE[ \t]+\w+|^\w[\w-]*\(\)[ \t]*\{",
    re.MULTILINE,
)
_BEFORE = re.compile(r"[ \t]*(?:#|//|/\*|\*|@|--|;|\"\"\"|template\b)")
_PARAGRAPH = re.compile(r"\n(?:[ \t]*\r?\n)+")
_TEX = re.compile(
    r"^[ \t]*\\(part|chapter|section|subsection|subsubsection|paragraph)\*?(?:\[[^\]\n]*\])?"
    r"\{([^\n]{1,300})\}[^\n]*\n?",
    re.MULTILINE,
)
_TEX_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4}
_TEX_TITLE = re.compile(r"\\title\{([^{}\n]{1,300})\}")
_TEX_COMMAND = re.compile(r"\\[A-Za-z]+\*?|[{}~]")
_ORG = re.compile(r"^(\*{1,9})[ \t]+([^\n]+)\n?", re.MULTILINE)
_ORG_TITLE = re.compile(r"^#\+title:[ \t]*([^\n]{1,300})", re.MULTILINE | re.IGNORECASE)
_SETTINGS = re.compile(
    r"^[ \t]*\[{1,2}([^\]\n]{1,200})\]{1,2}[ \t]*(?:[#;][^\n]*)?(?:\n|\Z)", re.MULTILINE
)


def convert_code(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline of functions and classes, with line anchors.

    Raise `LoadError` for binary data and generated code (long lines).
    """
    text, encoding = _read(raw)
    begins = [0, *(_with_comment(text, match.start()) for match in _DEFINITION.finditer(text))]
    starts = sorted(set(begins))
    blocks = []
    line, before = 1, 0
    for start, end in pairwise((*starts, len(text))):
        line, before = line + text.count("\n", before, start), start
        found = _DEFINITION.search(text, start, end)
        label = (
            text[found.start() : text.find("\n", found.start(), end) % (end + 1)] if found else ""
        )
        parts = [start, *(match.end() for match in _PARAGRAPH.finditer(text, start, end)), end]
        children = tuple(Block("text", low, high) for low, high in pairwise(parts) if low < high)
        shown = label.strip().rstrip("{: ")[:LONGEST_LABEL]
        blocks.append(Block("item", start, end, 0, shown, f"L{line}", children))
    return (Outline(text, tuple(blocks), encoding=encoding),)


def convert_settings(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline with the `[sections]` as headings.

    Raise `LoadError` for binary data and a generated file (long lines).
    """
    text, encoding = _read(raw)
    blocks = _headings(text, _SETTINGS, lambda found: (1, found[1].strip()))
    return (Outline(text, blocks, encoding=encoding),)


def convert_tex(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline with chapters and sections; the text keeps its commands.

    Raise `LoadError` for binary data.
    """
    text, encoding = decode(raw)
    blocks = _headings(text, _TEX, lambda m: (_TEX_LEVELS.get(m[1], 5), _plain(m[2])))
    title = _TEX_TITLE.search(text)
    return (Outline(text, blocks, _plain(title[1]) if title else "", encoding),)


def convert_org(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline with the headings of an Org file; raise `LoadError` for binary data."""
    text, encoding = decode(raw)
    blocks = _headings(text, _ORG, lambda m: (min(len(m[1]), 6), " ".join(m[2].split())[:300]))
    title = _ORG_TITLE.search(text)
    return (Outline(text, blocks, title[1].strip() if title else "", encoding),)


def _read(raw: bytes) -> tuple[str, str]:
    text, encoding = decode(raw)
    if has_long_line(text):
        raise LoadError(GENERATED)
    return text, encoding


def _headings(
    text: str, pattern: re.Pattern[str], about: Callable[[re.Match[str]], tuple[int, str]]
) -> tuple[Block, ...]:
    blocks, line, before = [], 1, 0
    for found in pattern.finditer(text):
        line, before = line + text.count("\n", before, found.start()), found.start()
        blocks.append(Block("heading", *found.span(), *about(found), f"L{line}"))
    return tuple(blocks)


def _with_comment(text: str, start: int) -> int:
    while start:
        above = text.rfind("\n", 0, start - 1) + 1
        if not _BEFORE.match(text, above, start):
            break
        start = above
    return start


def _plain(words: str) -> str:
    return " ".join(_TEX_COMMAND.sub(" ", words).split())
