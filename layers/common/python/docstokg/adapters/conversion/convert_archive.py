"""Archives, e-books and mail."""

import email
import email.policy
import posixpath
import re
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import PurePosixPath

from selectolax.lexbor import LexborHTMLParser

from docstokg.adapters.conversion.convert_encoding import decode
from docstokg.adapters.conversion.convert_html import convert as convert_html
from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.adapters.conversion.formats import convert
from docstokg.adapters.conversion.package import MISSING, Package
from docstokg.contracts.file_types import format_of, skipped
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

MOST_MEMBERS = 1_000
MOST_MESSAGES = 10_000
MOST_PARTS = 100
_FROM = re.compile(rb"^From [^\r\n]*\d\d:\d\d[^\r\n]*\r?\n", re.MULTILINE)
# A quotation with its attribution (`On 3 June Anna wrote:`), or a forwarded mail to the end.
_QUOTED = re.compile(
    r"^(?P<by>(?:(?!>)[^\n]+\n)?(?!>)[^\n]*:[ \t]*\n\s*)?(?P<text>(?:^>[^\n]*(?:\n|\Z))+)"
    r"|^(?P<line>[-_]{3}[^\n]*\n+)?(?P<head>(?:\*?[^\W\d][^\n:]{0,14}:\*?[ \t][^\n]+\n){2,})"
    r"(?P<rest>.*)",
    re.MULTILINE | re.DOTALL,
)
_MARKS = re.compile(r"^[> \t]+", re.MULTILINE)
_QUOTES = "blockquote[type=cite], .gmail_quote, .yahoo_quoted"
_SHOWN = ("From", "To", "Cc", "Date")


def convert_zip(raw: bytes) -> tuple[Outline, ...]:
    """Return each file's outlines, unread files with `refused`.

    Raise `LoadError` if damaged or above `MOST_MEMBERS` files.
    """
    package = Package(raw, "zip file")
    if len(package.names) > MOST_MEMBERS:
        raise LoadError(f"contains {len(package.names):,} files, more than {MOST_MEMBERS:,}")
    return tuple(outline for name in package.names for outline in _member(package, name))


def _member(package: Package, name: str) -> Iterator[Outline]:
    path = PurePosixPath(name)
    suffix = format_of(path) or ".txt"
    reason = "the path points outside the archive" if ".." in name else skipped(path)
    if suffix in (".zip", ".zip.gz", ".mbox", ".mbox.gz"):
        reason = reason or "archive inside an archive"
    try:
        if reason:
            raise LoadError(reason)
        for number, outline in enumerate(outlines := convert(suffix, package.read(name))):
            inner = name if len(outlines) == 1 else f"{name}/{number}"
            yield replace(outline, member=inner)
    except LoadError as refused:
        yield Outline("", member=name, refused=str(refused))


def convert_epub(raw: bytes) -> Outline:
    """Return one outline of an e-book in spine order; raise `LoadError` if damaged or encrypted."""
    package = Package(raw, "EPUB book")
    root = next(package.tree("META-INF/container.xml").iter("rootfile"), MISSING)
    book = package.tree(root.get("full-path", ""))
    if "META-INF/encryption.xml" in package.names:
        addresses = (e.get("URI", "") for e in package.tree("META-INF/encryption.xml").iter())
        if any(name.endswith(("html", "htm", "xml")) for name in addresses):
            raise LoadError("the file is encrypted")
    folder = posixpath.dirname(root.get("full-path", ""))
    items = {item.get("id"): item.get("href", "") for item in book.iter("item")}
    maker = TextMaker()
    steps = dict.fromkeys(step.get("idref") for step in book.iter("itemref"))
    for name in (urllib.parse.unquote(items.get(step, "")) for step in steps):
        chapter = convert_html(package.read(posixpath.normpath(f"{folder}/{name}".lstrip("/"))))
        if chapter.text.strip():
            maker.insert(chapter)
    return maker.outline(next(book.iter("title"), MISSING).text or "")


def convert_mbox(raw: bytes) -> tuple[Outline, ...]:
    """Return an outline per message.

    Raise `LoadError` for no mailbox, an invalid message, or above `MOST_MESSAGES`.
    """
    separators = list(_FROM.finditer(raw))
    starts = [match.end() for match in separators]
    ends = [*(match.start() for match in separators[1:]), len(raw)]
    if not separators:
        raise LoadError("not a mailbox: no line begins with `From `")
    if len(separators) > MOST_MESSAGES:
        raise LoadError(f"contains {len(separators):,} messages, more than {MOST_MESSAGES:,}")
    return tuple(
        replace(convert_eml(raw[start:end]), member=str(number))
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    )


def convert_eml(raw: bytes) -> Outline:
    """Return one outline of a message's headers and text, attachments as names.

    Raise `LoadError` for other files.
    """
    message = email.message_from_bytes(raw, EmailMessage, policy=email.policy.default)
    maker = TextMaker()
    subject = _header(message, "Subject")
    maker.heading(subject, 1)
    lines = [f"{name}: {value}" for name in _SHOWN if (value := _header(message, name))]
    bodies, names, encoding = [], [], ""
    for number, part in enumerate(message.walk()):
        if number > MOST_PARTS:
            raise LoadError(f"has more than {MOST_PARTS} parts")
        name = part.get_filename() or ""
        if part.is_attachment() or (name and part.get_content_maintype() != "text"):
            names.append(one_line(name) or "without a name")
        elif part.get_content_type() in ("text/plain", "text/html"):
            bodies.append(part)
    if not lines and not subject:
        raise LoadError("not an e-mail")
    maker.add("list", "\n".join([*lines, *(f"Attachment (not read): {name}" for name in names)]))
    plain = [part for part in bodies if part.get_content_type() == "text/plain"]
    for part in plain or bodies:
        content = bytes(part.get_payload(decode=True) or b"")
        if plain:
            text, encoding = _text(content, part.get_content_charset("utf-8"))
            _write_body(maker, text)
        else:
            _write_page(maker, content)
    return maker.outline(subject, encoding)


def _write_page(maker: TextMaker, content: bytes) -> None:
    tree = LexborHTMLParser(content)
    quoted = b""
    if (quote := tree.css_first(_QUOTES)) is not None:
        quoted = (quote.html or "").encode()
        quote.decompose()
        content = (tree.html or "").encode()
    maker.insert(convert_html(content))
    if quoted:
        maker.add("quote", convert_html(quoted).text.strip("\n"))


def _write_body(maker: TextMaker, text: str) -> None:
    at = 0
    for quoted in _QUOTED.finditer(text):
        if quoted["head"] and not quoted["line"] and "@" not in quoted["head"]:
            continue
        _write_paragraphs(maker, text[at : quoted.start()])
        at = quoted.end()
        source = one_line(quoted["by"] or quoted["head"] or "").rstrip(":")
        words = quoted["text"] or quoted["rest"]
        maker.add("quote", _MARKS.sub("", words).strip("\n"), label=source)
    _write_paragraphs(maker, text[at:])


def _write_paragraphs(maker: TextMaker, text: str) -> None:
    for paragraph in text.split("\n\n"):
        maker.add("text", paragraph.strip("\n"))


def _text(content: bytes, charset: str) -> tuple[str, str]:
    try:
        return content.decode(charset).replace("\r\n", "\n").replace("\0", ""), ""
    except (UnicodeDecodeError, LookupError):
        text, encoding = decode(content)
        return text.replace("\r\n", "\n"), encoding


def _header(message: EmailMessage, name: str) -> str:
    try:
        return one_line(str(message.get(name, "")))[:1000]
    except (ValueError, IndexError, AttributeError, TypeError):
        return ""
