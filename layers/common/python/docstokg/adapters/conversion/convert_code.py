"""Code and settings."""

import re
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
# A mapping in a YAML list, with its indented lines.
_RECORD = re.compile(
    r"^([ ]*)-[ ]+[\w\"'.-]+:(?:[ ][^\n]*)?(?:\n|\Z)"
    r"(?:\1[ ]+[^\s-][^\n]*(?:\n|\Z)|\1[ ]{2,}[^\n]*(?:\n|\Z))*",
    re.MULTILINE,
)
_SETTINGS = re.compile(
    r"^[ \t]*\[{1,2}([^\]\n]{1,200})\]{1,2}[ \t]*(?:[#;][^\n]*)?(?:\n|\Z)", re.MULTILINE
)


def convert_code(raw: bytes) -> Outline:
    """Return one outline of functions and classes, with line anchors.

    Raise `LoadError` for binary data and generated code (long lines).
    """
    text, encoding = _source_text(raw)
    begins = [0, *(_with_comment(text, match.start()) for match in _DEFINITION.finditer(text))]
    starts = sorted(set(begins))
    blocks = []
    line, before = 1, 0
    for start, end in pairwise((*starts, len(text))):
        line, before = line + text.count("\n", before, start), start
        definition = _DEFINITION.search(text, start, end)
        label = ""
        if definition:
            label_end = text.find("\n", definition.start(), end) % (end + 1)
            label = text[definition.start() : label_end]
        parts = [start, *(match.end() for match in _PARAGRAPH.finditer(text, start, end)), end]
        children = tuple(Block("text", low, high) for low, high in pairwise(parts) if low < high)
        label = label.strip().rstrip("{: ")[:LONGEST_LABEL]
        blocks.append(Block("item", start, end, 0, label, f"L{line}", children))
    return Outline(text, tuple(blocks), encoding=encoding)


def convert_settings(raw: bytes) -> Outline:
    """Return one outline with the `[sections]` as headings, YAML records as passages.

    Raise `LoadError` for binary data and a generated file (long lines).
    """
    text, encoding = _source_text(raw)
    blocks, line, before = [], 1, 0
    for section in _SETTINGS.finditer(text):
        line, before = line + text.count("\n", before, section.start()), section.start()
        blocks.append(Block("heading", *section.span(), 1, section[1].strip(), f"L{line}"))
    if not blocks:
        blocks = [Block("row", *record.span()) for record in _RECORD.finditer(text)]
    return Outline(text, tuple(blocks), encoding=encoding)


def _source_text(raw: bytes) -> tuple[str, str]:
    text, encoding = decode(raw)
    if has_long_line(text):
        raise LoadError(GENERATED)
    return text, encoding


def _with_comment(text: str, start: int) -> int:
    while start:
        above = text.rfind("\n", 0, start - 1) + 1
        if not _BEFORE.match(text, above, start):
            break
        start = above
    return start
