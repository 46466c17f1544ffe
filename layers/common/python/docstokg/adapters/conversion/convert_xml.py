"""Generic XML."""

from xml.etree.ElementTree import Element

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.package import parse
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

HEADINGS = frozenset(("title", "head", "heading"))


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Return one outline of texts and attributes in order, or of an `html` root as HTML.

    Raise `LoadError` for invalid XML or no text.
    """
    root = parse(raw)
    if root.tag == "html":
        from docstokg.adapters.conversion.convert_html import convert as convert_html

        return convert_html(raw)
    maker = TextMaker()
    _walk(root, maker, 1)
    made = maker.outline()
    if not made.text:
        raise LoadError("contains no text")
    return (made,)


def _walk(element: Element, maker: TextMaker, depth: int) -> None:
    anchor = element.get("id", "")
    if element.tag in HEADINGS and len(element) == 0:
        words = one_line(element.text or "")
        maker.heading(words, depth - 1, anchor)
    elif _is_prose(element):
        maker.add("text", one_line("".join(element.itertext())), anchor=anchor)
    elif all(len(child) == 0 for child in element):
        lines = [_line(element), *(_line(child) for child in element)]
        maker.add("item", "\n".join(filter(None, lines)), label=element.tag, anchor=anchor)
    else:
        maker.add("text", _line(element), anchor=anchor)
        for child in element:
            _walk(child, maker, depth + 1)


def _is_prose(element: Element) -> bool:
    own = (element.text or "") + "".join(child.tail or "" for child in element)
    return bool(own.strip()) and (len(element) > 0 or not element.attrib)


def _line(element: Element) -> str:
    values = [f"{key}={value}" for key, value in element.attrib.items() if value.strip()]
    text = one_line(element.text or "") if len(element) == 0 else ""
    told = [one_line(", ".join(values)), text]
    return f"{element.tag}: {' '.join(filter(None, told))}" if any(told) else ""
