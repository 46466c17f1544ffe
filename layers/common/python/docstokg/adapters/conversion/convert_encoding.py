"""Text encodings."""

import codecs
import re
import unicodedata

from docstokg.contracts.file_types import INFO_MARK
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

_RUN = re.compile(rb"[\x80-\xff]+")
_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1f\x7f]")
# One control character per this many is allowed.
MOST_CONTROLS = 50

SAMPLE = 200_000
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_DECLARED = re.compile(rb"(?:charset|encoding|coding)\s*[=:]\s*[\"']?([A-Za-z0-9_.:-]{2,40})")
# Superset of Latin-1; only five bytes are undefined.
WESTERN = "cp1252"


def decode(raw: bytes) -> tuple[str, str]:
    """Return the text and its encoding ("" for UTF-8); raise `LoadError` if binary or unknown."""
    for mark, name in _BOMS:
        if raw.startswith(mark):
            return _checked(raw, name)
    try:
        return _no_nul(raw.decode("utf-8")), ""
    except UnicodeDecodeError:
        pass
    if b"\0" in raw[:SAMPLE]:
        raise LoadError("not a text file: contains NUL bytes")
    declared = _DECLARED.search(raw[:1024])
    for name in (*([declared[1].decode()] if declared else []), _likely(raw)):
        try:
            codecs.lookup(name)
            return _checked(raw, name)
        except (LookupError, ValueError, OSError):  # Python searches files for an unknown codec
            continue
    # A more helpful error than an unknown encoding.
    _check_controls(len(_CONTROLS.findall(raw[:SAMPLE])), len(raw))
    raise LoadError("unknown text encoding")


def _likely(raw: bytes) -> str:
    sample = raw[:SAMPLE]
    runs = _RUN.findall(sample)
    # charset-normalizer needs longer texts and confuses Latin code pages.
    if 2 * sum(len(run) == 1 for run in runs) > sum(map(len, runs)):
        return WESTERN
    try:
        from charset_normalizer import from_bytes
    except ImportError as missing:
        why = "detecting its encoding requires pip install 'docstokg[documents]'"
        raise LoadError(why) from missing
    best = from_bytes(sample).best()
    return best.encoding if best is not None else WESTERN


def _checked(raw: bytes, name: str) -> tuple[str, str]:
    text = _no_nul(raw.decode(name))
    odd = sum(unicodedata.category(c) == "Cc" and c not in "\t\n\r\f\v" for c in text[:SAMPLE])
    _check_controls(odd, len(text))
    return text, codecs.lookup(name).name


def _check_controls(count: int, length: int) -> None:
    if count * MOST_CONTROLS > min(length, SAMPLE):
        raise LoadError("not a text file: too many control characters")


def _no_nul(text: str) -> str:
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise LoadError(f"NUL character in line {line}")
    return text


def convert(raw: bytes) -> Outline:
    """Return the decoded text as one outline without blocks; raise `LoadError` as `decode`."""
    text, encoding = decode(INFO_MARK.sub(b"", raw))
    return Outline(text, encoding=encoding)
