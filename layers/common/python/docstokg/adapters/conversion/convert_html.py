"""HTML converter."""

import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

from selectolax.lexbor import LexborHTMLParser, LexborNode

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.package import check_depth
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import BlockKind, Outline
from docstokg.errors import LoadError

_LEFT_OUT = (
    "script style noscript template nav aside header footer form button select option iframe"
    " object embed svg canvas math head link meta dialog"
)
LEFT_OUT = frozenset(_LEFT_OUT.split())
HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = (
    "p div section article main body html ul ol dl li dt dd table pre blockquote figure"
    " figcaption address details summary hr h1 h2 h3 h4 h5 h6 center fieldset tr td th tbody thead"
)
BLOCKS = frozenset(_BLOCKS.split())
_STEERING_CLASSES = (
    "nav navbar navheader navfooter navigation nav-panel breadcrumb breadcrumbs sphinxsidebar"
)
STEERING_CLASSES = frozenset(_STEERING_CLASSES.split())
_STEERING_LINKS = "prev previous next up first last start contents index"
STEERING_LINKS = frozenset(_STEERING_LINKS.split())
LEAST_STEERING = 2
STRUCTURED = ("dl", "ul", "ol", "table", "pre")
# A table containing one of these is a page layout.
LAYOUT = "table, h1, h2, h3, h4, h5, h6"

MAIN = ("main", "[role=main]", "article", "#content", "#main")
# Maximum indent of code in nested lists.
MOST_MARGIN = 12
# Minimum share of the page's text in a main element.
LEAST_SHARE = 0.3


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline of the visible text without navigation.

    Raise `LoadError` for binary data, too deep nesting or framesets; plain text is accepted.
    """
    text, encoding = decode(raw)
    tree = LexborHTMLParser(text)
    title_node = tree.css_first("title")
    title = one_line(title_node.text()) if title_node is not None else ""
    body = tree.body
    if body is None:
        raise LoadError("contains no HTML")
    maker = TextMaker()
    _walk(_main(body), maker, 0)
    made = maker.outline(encoding=encoding)
    return (replace(made, title=made.title or title),)


def _main(body: LexborNode) -> LexborNode:
    whole = len(body.text(deep=True))
    for selector in MAIN:
        nodes = body.css(selector)
        if len(nodes) == 1 and len(nodes[0].text(deep=True)) >= LEAST_SHARE * whole:
            return nodes[0]
    return body


def _walk(node: LexborNode, maker: TextMaker, depth: int) -> None:
    _walk_all(node.iter(include_text=True), maker, depth)


def _walk_all(nodes: Iterable[LexborNode], maker: TextMaker, depth: int) -> None:
    check_depth(depth)
    loose: list[str] = []
    for child in nodes:
        tag = child.tag or ""
        if _is_left_out(child):
            continue
        if tag not in BLOCKS:
            if _holds_blocks(child):
                _flush(loose, maker)
                _walk(child, maker, depth + 1)
            else:
                loose.append(_inline(child, depth + 1))
            continue
        _flush(loose, maker)
        _block(child, tag, maker, depth)
    _flush(loose, maker)


def _is_left_out(node: LexborNode) -> bool:
    tag = node.tag or ""
    if tag == "-text":
        return False
    return tag in LEFT_OUT or tag == "-comment" or _steers(node)


def _steers(node: LexborNode) -> bool:
    attributes = node.attributes
    if attributes.get("role") == "navigation":
        return True
    if not STEERING_CLASSES.isdisjoint((attributes.get("class") or "").lower().split()):
        return True
    links = (child.attributes.get("rel") or "" for child in node.iter() if child.tag == "a")
    return sum(rel.lower() in STEERING_LINKS for rel in links) >= LEAST_STEERING


def _block(node: LexborNode, tag: str, maker: TextMaker, depth: int) -> None:  # noqa: C901, PLR0912 - one branch a tag
    if tag in HEADINGS:
        words = one_line(_inline(node, depth + 1)).rstrip("¶#").rstrip()
        inner = node.css_first("[id]")
        holder = node.parent
        anchor = node.id or (inner.id if inner is not None else None)
        if not anchor and holder is not None and holder.tag in ("section", "div"):
            anchor = holder.id
        maker.heading(words, HEADINGS[tag], anchor or "")
    elif tag == "pre":
        maker.add("code", _set_off(node))
    elif tag == "table" and not any(inner != node for inner in node.css(LAYOUT)):
        maker.table(_row(row, depth + 1) for row in node.css("tr"))
    elif tag in ("ul", "ol"):
        for kind, lines in groupby(_list_lines(node, depth + 1, ""), itemgetter(0)):
            between = "\n" if kind == "list" else "\n\n"
            maker.add(kind, between.join(text for _, text in lines))
    elif tag == "dt":
        words = one_line(_inline(node, depth + 1)).rstrip("¶").rstrip()
        description = node.next
        while description is not None and description.tag in ("-text", "-comment"):
            description = description.next
        if description is not None and description.tag == "dd":
            _described(words, description, maker, depth + 1)
        else:
            maker.add("text", words)
    elif tag == "dd" and _follows_term(node):
        pass  # written with its term
    elif _holds_blocks(node):
        _walk(node, maker, depth + 1)
    else:
        maker.add("text", one_line(_inline(node, depth + 1)))


def _follows_term(node: LexborNode) -> bool:
    before = node.prev
    while before is not None and before.tag in ("-text", "-comment"):
        before = before.prev
    return before is not None and before.tag == "dt"


def _described(words: str, node: LexborNode, maker: TextMaker, depth: int) -> None:
    children = list(node.iter(include_text=True))
    structured = (n for n, child in enumerate(children) if _holds(child, *STRUCTURED))
    plain = next(structured, len(children))
    line = one_line("".join(_inline(child, depth + 1) for child in children[:plain]))
    maker.add("item", f"{words}\n    {line}" if line else words, label=words)
    _walk_all(children[plain:], maker, depth)


def _list_lines(node: LexborNode, depth: int, indent: str) -> Iterator[tuple[BlockKind, str]]:
    check_depth(depth)
    items = (item for item in node.iter() if item.tag == "li" and not _is_left_out(item))
    for number, item in enumerate(items, 1):
        children = list(item.iter(include_text=True))
        own = [child for child in children if child.tag not in ("ul", "ol")]
        begun = f"{indent}{number}. " if node.tag == "ol" else f"{indent}- "
        for kind, text in _pieces(own, depth + 1):
            if kind == "code":
                yield kind, textwrap.indent(text, indent[:MOST_MARGIN])
            else:
                yield "list", begun + text
                begun = f"{indent}  "
        for child in children:
            if child.tag in ("ul", "ol"):
                yield from _list_lines(child, depth + 1, indent + "  ")


def _pieces(nodes: Iterable[LexborNode], depth: int) -> Iterator[tuple[BlockKind, str]]:
    check_depth(depth)
    words: list[str] = []
    for node in nodes:
        if _is_left_out(node):
            continue
        if not _holds(node, "pre"):
            words += [_inline(node, depth + 1), " " if node.tag in BLOCKS else ""]
            continue
        if text := one_line("".join(words)):
            yield "text", text
        words = []
        if node.tag != "pre":
            yield from _pieces(node.iter(include_text=True), depth + 1)
        elif code := _set_off(node):
            yield "code", code
    if text := one_line("".join(words)):
        yield "text", text


def _set_off(code: LexborNode) -> str:
    return textwrap.indent(code.text(deep=True).strip("\n"), "    ")


def _holds(node: LexborNode, *tags: str) -> bool:
    if node.tag == "-text":
        return False
    return node.tag in tags or node.css_first(", ".join(tags)) is not None


def _row(row: LexborNode, depth: int) -> list[Cell]:
    return [
        Cell(
            one_line(_inline(cell, depth)),
            _span(cell, "colspan"),
            _span(cell, "rowspan"),
            cell.tag == "th",
        )
        for cell in row.iter()
        if cell.tag in ("td", "th")
    ]


def _span(cell: LexborNode, name: str) -> int:
    text = (cell.attributes.get(name) or "")[:4]
    return int(text) if text.isdecimal() else 1


def _holds_blocks(node: LexborNode) -> bool:
    return any((inner.tag or "") in BLOCKS for inner in node.css("*") if inner != node)


def _inline(node: LexborNode, depth: int) -> str:
    check_depth(depth)
    if node.tag == "-text":
        return node.text(deep=False) or ""
    if _is_left_out(node):
        return ""
    if node.tag == "br":
        return " "
    if node.tag == "img":
        return f" {node.attributes.get('alt') or ''} "
    inner = "".join(_inline(child, depth + 1) for child in node.iter(include_text=True))
    return f" {inner} " if node.tag in BLOCKS else inner


def _flush(loose: list[str], maker: TextMaker) -> None:
    maker.add("text", one_line("".join(loose)))
    loose.clear()
