"""reStructuredText by docutils: it says what is a heading; nothing is inserted, nothing raw."""

import io

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst.directives import (  # noqa: F401  (docutils opens them when first named)
    admonitions,
    body,
    images,
    misc,
    parts,
    references,
    tables,
)

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.contracts.outline import Block, Outline
from docstokg.errors import LoadError

SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 6,
    "traceback": False,
    "_disable_config": True,
    "input_encoding": "unicode",
    "doctitle_xform": False,
    "sectsubtitle_xform": False,
    "smart_quotes": False,
    "syntax_highlight": "none",
    "exit_status_level": 6,
    "line_length_limit": 1_000_000,
}


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Find the headings of the text, which stays as it is; blocks between them are found later.

    Directives of other tools (Sphinx's) are unknown here: they stay in the text as written.
    """
    text, encoding = decode(raw)
    try:
        tree = publish_doctree(
            text, settings_overrides={**SETTINGS, "warning_stream": io.StringIO()}
        )
    except RecursionError as broken:
        raise LoadError("it is nested too deep") from broken
    except SystemExit as broken:  # what docutils does of a text it has no tree for
        raise LoadError("it is no reStructuredText that docutils reads") from broken
    except Exception as broken:
        raise LoadError(f"it cannot be parsed ({type(broken).__name__})") from broken
    lines = text.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    blocks = [block for node in tree.findall(nodes.section)
              if (block := _heading(node, lines, begins))]  # fmt: skip
    blocks.sort(key=lambda block: block.start)
    title = blocks[0].label if blocks and blocks[0].level == 1 else ""
    return (Outline(text, tuple(blocks), title, encoding),)


def _heading(section: nodes.section, lines: list[str], begins: list[int]) -> Block | None:
    """Find a section's title and its rules among the lines; docutils counts the line below it."""
    title = section.next_node(nodes.title)
    if title is None:
        return None
    words = " ".join(title.astext().split())
    level, parent = 1, section.parent
    while isinstance(parent, nodes.section):
        level, parent = level + 1, parent.parent
    after = title.line or section.line or 0
    for under in range(min(after, len(lines) - 1), max(0, after - 4), -1):
        if _is_rule(lines[under]) and under and lines[under - 1].strip():
            first = under - 1
            if first and _is_rule(lines[first - 1]) and lines[first - 1][0] == lines[under][0]:
                first -= 1
            return Block("heading", begins[first], begins[under + 1], min(level, 6), words)
    return None


def _is_rule(line: str) -> bool:
    mark = line.strip()
    return len(mark) >= 2 and not mark[0].isalnum() and len(set(mark)) == 1
