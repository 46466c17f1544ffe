"""Markdown converter."""

import io
import re
from bisect import bisect_left
from dataclasses import replace
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.contracts.outline import Block, BlockKind, Outline

_COMMENT = re.compile(r"\s*(?:<!--.*?-->\s*|</?[a-zA-Z][^<>]*/?>\s*)+\Z", re.DOTALL)
# Maximum parsed characters of a heading; inline parsing is not linear.
LONGEST_HEADING = 300

_KINDS: dict[str, BlockKind] = {
    "heading": "heading",
    "bullet_list": "list",
    "ordered_list": "list",
    "blockquote": "list",
    "list_item": "item",
    "table": "table",
    "fence": "code",
    "code_block": "code",
    "hr": "gap",
}


# CommonMark with tables.
_BLOCKS = MarkdownIt("commonmark", {"maxNesting": 20}).enable("table")
_BLOCKS.disable(["inline", "text_join"])
_INLINE = MarkdownIt("commonmark", {"maxNesting": 20})


def outline_markdown(text: str) -> Outline:
    """Return the unchanged text with its blocks, each a run of whole lines."""
    lines = io.StringIO(text, newline="")
    begins = list(accumulate(map(len, lines), initial=0))
    tree = SyntaxTreeNode(_BLOCKS.parse(text))
    blocks = tuple(block for node in tree.children if (block := _block(node, text, begins)))
    title = blocks[0].label if blocks and blocks[0].level == 1 else ""
    return Outline(text=text, blocks=blocks, title=title)


def _block(node: SyntaxTreeNode, text: str, begins: list[int]) -> Block | None:
    if node.map is None:
        return None
    first, last = node.map
    last = min(last, len(begins) - 1)
    start, end = begins[first], begins[last]
    if start >= end:
        return None
    kind: BlockKind = _KINDS.get(node.type, "text")
    level, label = 0, ""
    children: tuple[Block, ...] = ()
    if kind == "heading":
        level, label = int(node.tag[1]), _plain(node.children[0].content)
    elif node.type == "html_block" and end - start < 2000 and _COMMENT.match(text[start:end]):
        kind = "gap"  # comments and bare tags, not text inside tags
    elif kind in ("list", "item"):
        children = tuple(block for child in node.children if (block := _block(child, text, begins)))
        if kind == "item":
            label = _term(text[start : begins[first + 1]])
    elif kind in ("table", "code"):
        rows = begins[bisect_left(begins, start) : bisect_left(begins, end) + 1]
        children = tuple(Block("item", a, b) for a, b in pairwise(rows))
    return Block(kind, start, end, level, label, children=children)


def _plain(marked: str) -> str:
    (inline,) = _INLINE.parseInline(marked[:LONGEST_HEADING].replace("\n", " "))
    words = [
        token.content
        for token in inline.children or ()
        if token.type in ("text", "code_inline", "image", "text_special")
    ]
    return " ".join("".join(words).split())


def convert(raw: bytes) -> Outline:
    """Return one outline of unchanged Markdown; raise `LoadError` for binary data."""
    text, encoding = decode(raw)
    return replace(outline_markdown(text), encoding=encoding)


def _term(line: str) -> str:
    words = " ".join(line.lstrip(" \t-*+0123456789.)").split())
    return words if 0 < len(words) <= 60 else ""
