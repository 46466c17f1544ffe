"""HTML converter."""

import contextlib
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Literal

from selectolax.lexbor import LexborHTMLParser, LexborNode

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.marks import (
    HIDDEN,
    LEVEL,
    LOWERED,
    RAISED,
    SAME_COLOUR,
    STRUCK_OUT,
    linear,
    list_line,
    numeral,
    render,
)
from docstokg.adapters.conversion.package import check_depth, parse
from docstokg.adapters.conversion.table_header import Cell
from docstokg.contracts.outline import BlockKind, Outline
from docstokg.domain.text.words import is_visible
from docstokg.errors import LoadError

_LEFT_OUT = (
    "script, style, noscript, template, nav, aside:not([epub\\:type]), header, footer,"
    " form:not(:has(p, li, td, [type=checkbox], [type=radio])), button, select,"
    " option, iframe, object, embed, svg, canvas, math, head, link, meta, dialog,"
    " [role=navigation], [role=doc-backlink]"
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = (
    "p div section article main body html ul ol dl li dt dd table pre blockquote figure"
    " figcaption address details summary hr h1 h2 h3 h4 h5 h6 center fieldset tr td th tbody thead"
)
BLOCKS = frozenset(_BLOCKS.split())
_ANY_BLOCK = ", ".join(BLOCKS)
_STEERING_CLASSES = (
    "nav navbar navheader navfooter navigation nav-panel breadcrumb breadcrumbs sphinxsidebar"
)
STEERING_CLASSES = frozenset(_STEERING_CLASSES.split())
_STEERING_LINKS = "prev previous next up first last start contents index"
STEERING_LINKS = frozenset(_STEERING_LINKS.split())
LEAST_STEERING = 2
STRUCK = frozenset(("s", "strike", "del"))
_MARKED = (
    "[hidden]", "[style]", *STRUCK, "sup", "sub", "math", "ruby:not(:has(rp)) rt",
    "a[role=doc-noteref]", ":not(sup) > a[epub\\:type=noteref]",
    *(f":is(label, li, p, td, dd) > input[type={kind}]" for kind in ("checkbox", "radio")),
)  # fmt: skip
_NOTE_LINKS = "a[role=doc-noteref], a[epub\\:type=noteref]"
# Elements whose formatting carries meaning.
MARKED = ", ".join(_MARKED)
_UNSEEN = re.compile(
    r"display:\s*none|visibility:\s*hidden|opacity:\s*0(?:\.0*)?\s*(?:;|\Z)"
    r"|font-size:\s*(?:[01](?:\.\d+)?p[tx]|2(?:\.[0-5]\d*)?px|0)"
)
_COLOUR = re.compile(r"(?<![\w-])(color|background)(?:-color)?:\s*([^;\s]+)")
_PANEL = re.compile(r"\b(?:tab|accordion|collaps|panel|carousel|slide)", re.IGNORECASE)
STRUCTURED = ("dl", "ul", "ol", "table", "pre")
# A table containing one of these is a page layout.
LAYOUT = "table, h1, h2, h3, h4, h5, h6"

MAIN = ("main", "[role=main]", "article", "#content", "#main")
# Maximum indent of code in nested lists.
MOST_MARGIN = 12
# Minimum share of the page's text in a main element.
LEAST_SHARE = 0.3


def convert(raw: bytes) -> Outline:
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
    main, maker = _main(body), _Maker()
    _remove(body, [*_hidden(body, maker.left_out), *_steering(body)])
    for block in main.css(_ANY_BLOCK):
        holder = block.parent
        while holder is not None and holder.mem_id not in maker.holders:
            maker.holders.add(holder.mem_id)
            holder = holder.parent
    _walk(main, maker, 0)
    made = maker.outline(encoding=encoding)
    return replace(made, title=made.title or title)


class _Maker(TextMaker):
    """Has the addresses of the elements that contain blocks in `holders`."""

    def __init__(self) -> None:
        super().__init__()
        self.holders: set[int] = set()


def _hidden(body: LexborNode, left_out: Counter[str]) -> Iterator[LexborNode]:
    # An element that matches several selectors is returned several times.
    for node in {node.mem_id: node for node in body.css(MARKED)}.values():
        tag = node.tag or ""
        if kind := STRUCK_OUT if tag in STRUCK else _invisible(node):
            left_out[kind] += is_visible(node.text(deep=True))
            yield node
        elif tag == "math":
            with contextlib.suppress(LoadError):
                node.insert_before(linear(parse((node.html or "").replace("&nbsp;", " ").encode())))
        elif tag == "input":
            node.insert_before("☒ " if "checked" in node.attributes else "☐ ")
        elif marks := _marks(node, tag):
            node.insert_before(marks[0])
            node.insert_after(marks[1])


def _steering(body: LexborNode) -> Iterator[LexborNode]:
    yield from body.css(_LEFT_OUT)
    for node in body.css("[class]"):
        if not STEERING_CLASSES.isdisjoint((node.attributes["class"] or "").lower().split()):
            yield node
    links: Counter[int] = Counter()
    for link in body.css("a[rel]"):
        holder = link.parent
        if holder is not None and (link.attributes["rel"] or "").lower() in STEERING_LINKS:
            links[holder.mem_id] += 1
            if links[holder.mem_id] == LEAST_STEERING:
                yield holder


def _remove(body: LexborNode, nodes: Iterable[LexborNode]) -> None:
    by_address = {node.mem_id: node for node in nodes if node.mem_id != body.mem_id}
    outermost = []
    for node in by_address.values():
        holder = node.parent
        while holder is not None and holder.mem_id not in by_address:
            holder = holder.parent
        if holder is None:
            outermost.append(node)
    for node in outermost:
        node.decompose()


def _marks(node: LexborNode, tag: str) -> str:
    if tag == "rt":
        return "()"
    if tag not in ("sup", "sub", "a") or (tag == "a" and node.css_first("sup") is not None):
        return ""
    holder = node.parent
    is_in_link = holder is not None and holder.css_matches(_NOTE_LINKS) and holder.tag == "a"
    is_link = tag == "a" or is_in_link or node.css_matches('a[href^="#"]')
    if is_link and node.text(deep=True).strip().isalnum():
        return "[]"
    return f"{RAISED if tag == 'sup' else LOWERED}{LEVEL}" if tag != "a" else ""


def _invisible(node: LexborNode) -> str:
    attributes = node.attributes
    style = (attributes.get("style") or "").lower()
    if "hidden" not in attributes and not _UNSEEN.search(style):
        colours = dict(_COLOUR.findall(style))
        same = colours.get("color", "") == colours.get("background", "-")
        return SAME_COLOUR if same else ""
    holder: LexborNode | None = node
    while holder is not None:
        named = holder.attributes
        words = f"{named.get('role')} {named.get('class')} {named.get('aria-labelledby')}"
        if holder.tag == "details" or _PANEL.search(words):
            return ""
        holder = holder.parent
    return HIDDEN


def _main(body: LexborNode) -> LexborNode:
    whole = len(body.text(deep=True))
    for selector in MAIN:
        nodes = body.css(selector)
        if len(nodes) == 1 and len(nodes[0].text(deep=True)) >= LEAST_SHARE * whole:
            return nodes[0]
    return body


def _walk(node: LexborNode, maker: _Maker, depth: int) -> None:
    _walk_all(node.iter(include_text=True), maker, depth)


def _walk_all(nodes: Iterable[LexborNode], maker: _Maker, depth: int) -> None:
    check_depth(depth)
    loose: list[str] = []
    for child in nodes:
        tag = child.tag or ""
        if tag not in BLOCKS:
            if child.mem_id in maker.holders:
                _flush(loose, maker)
                _walk(child, maker, depth + 1)
            else:
                loose.append(_inline(child, depth + 1))
            continue
        _flush(loose, maker)
        _block(child, tag, maker, depth)
    _flush(loose, maker)


def _block(node: LexborNode, tag: str, maker: _Maker, depth: int) -> None:  # noqa: C901 - one branch a tag
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
    elif tag == "table" and all(inner.mem_id == node.mem_id for inner in node.css(LAYOUT)):
        caption = node.css_first("caption")
        name = one_line(_inline(caption, depth + 1)) if caption is not None else ""
        maker.table([_row(row, depth + 1) for row in node.css("tr")], name=name)
    elif tag in ("ul", "ol"):
        for kind, lines in groupby(_list_lines(node, depth + 1, ""), itemgetter(0)):
            between = "\n" if kind == "list" else "\n\n"
            maker.add(kind, between.join(text for _, text in lines))
    elif tag == "dt":
        words = one_line(_inline(node, depth + 1)).rstrip("¶").rstrip()
        description = _beside(node, "next")
        if description is not None and description.tag == "dd":
            _described(words, description, maker, depth + 1)
        else:
            maker.add("text", words)
    elif tag == "dd" and (term := _beside(node, "prev")) is not None and term.tag == "dt":
        pass  # written with its term
    elif node.mem_id in maker.holders:
        _walk(node, maker, depth + 1)
    else:
        maker.add("text", one_line(_inline(node, depth + 1)))


def _beside(node: LexborNode, way: Literal["next", "prev"]) -> LexborNode | None:
    beside: LexborNode | None = getattr(node, way)
    while beside is not None and beside.tag in ("-text", "-comment"):
        beside = getattr(beside, way)
    return beside


def _described(words: str, node: LexborNode, maker: _Maker, depth: int) -> None:
    children = list(node.iter(include_text=True))
    structured = (n for n, child in enumerate(children) if _holds(child, *STRUCTURED))
    plain = next(structured, len(children))
    line = one_line("".join(_inline(child, depth + 1) for child in children[:plain]))
    maker.add("item", f"{words}\n    {line}" if line else words, label=words)
    _walk_all(children[plain:], maker, depth)


def _list_lines(node: LexborNode, depth: int, indent: str) -> Iterator[tuple[BlockKind, str]]:
    check_depth(depth)
    items = (item for item in node.iter() if item.tag == "li")
    step = -1 if "reversed" in node.attributes else 1
    number = _integer(node, "start") or (1 if step > 0 else len(node.css("li")))
    for item in items:
        children = list(item.iter(include_text=True))
        direct = [child for child in children if child.tag not in ("ul", "ol")]
        number = _integer(item, "value") or number
        style = node.attributes.get("type") or "1"
        marker = f"{numeral(number, style)}." if node.tag == "ol" else "-"
        number += step
        for kind, text in _pieces(direct, depth + 1):
            if kind == "code":
                yield kind, textwrap.indent(text, indent[:MOST_MARGIN])
            else:
                yield "list", list_line(marker, text, indent) if marker else f"{indent}  {text}"
                marker = ""
        for child in children:
            if child.tag in ("ul", "ol"):
                yield from _list_lines(child, depth + 1, indent + "  ")


def _pieces(nodes: Iterable[LexborNode], depth: int) -> Iterator[tuple[BlockKind, str]]:
    check_depth(depth)
    words: list[str] = []
    for node in nodes:
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
    return textwrap.indent(render(code.text(deep=True)).strip("\n"), "    ")


def _holds(node: LexborNode, *tags: str) -> bool:
    if (node.tag or "-").startswith("-"):
        return False
    return node.tag in tags or node.css_first(", ".join(tags)) is not None


def _row(row: LexborNode, depth: int) -> list[Cell]:
    return [
        Cell(
            one_line(_inline(cell, depth)),
            _integer(cell, "colspan") or 1,
            _integer(cell, "rowspan") or 1,
            cell.tag == "th",
        )
        for cell in row.iter()
        if cell.tag in ("td", "th")
    ]


def _integer(node: LexborNode, name: str) -> int | None:
    text = (node.attributes.get(name) or "")[:6]
    return int(text) if text.removeprefix("-").isdecimal() else None


def _inline(node: LexborNode, depth: int) -> str:
    check_depth(depth)
    if node.tag == "-text":
        return node.text(deep=False) or ""
    if node.tag == "-comment":
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
