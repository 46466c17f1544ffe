"""Manual pages: what a page is called, and which pages it points to."""

import re
from collections.abc import Iterator

_TITLE = re.compile(r"([\w.+:@\[-]+)\((\d\w{0,3})\)(?:\s.*)?")
_CALLED = re.compile(r"\s*NAME[ \t]*\n\s*((?:[\w.+:@-]+\s*,\s*)*[\w.+:@-]+)\s+[-\u2010-\u2014]\s")
_REFERENCE = re.compile(r"(?<![\w.+:@/$-])[a-z][a-z\d_.+@-]+\([1-9][a-z]{0,3}\)(?![\w-])")
_HYPHENATED = re.compile(r"[\u2010-]\s+\Z")


def page_name(title: str) -> str | None:
    """Give what the page is called whose title is `tar(1)` or `tar(1) - Linux manual page`."""
    page = _TITLE.fullmatch(title)
    return page[1] if page is not None and any(map(str.isalpha, page[1])) else None


def other_names(text: str) -> list[str]:
    """List the commands that a page's section NAME describes: `gzip, gunzip, zcat - compress`."""
    called = _CALLED.match(text)
    return [] if called is None else [name.strip() for name in called[1].split(",")]


def references(text: str) -> Iterator[str]:
    """Yield the pages that a text of a manual points to, as `fstab(5)`.

    Only small letters count, so that no formula is a page; a name parted at a line's end is none.
    """
    for page in _REFERENCE.finditer(text):
        if not _HYPHENATED.search(text, 0, page.start()):
            yield page[0]


def is_reference(name: str) -> bool:
    """Tell whether a name is that of a page, with its section: `fstab(5)`."""
    return name.endswith(")") and _REFERENCE.fullmatch(name) is not None
