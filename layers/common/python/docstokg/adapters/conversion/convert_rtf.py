"""RTF converter."""

import re

from striprtf.striprtf import rtf_to_text

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

# Escape of a UTF-16 unit, which is a signed number.
_CHARACTER = re.compile(r"\\u(-?\d+)")
_UNKNOWN = r"\u65533"


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Return an RTF document's paragraphs as one outline; raise `LoadError` for other files."""
    if not raw.lstrip().startswith(b"{\\rtf"):
        raise LoadError("not an RTF file")
    maker = TextMaker()
    # Non-ASCII bytes are escapes in the encoding that the file declares.
    text = _CHARACTER.sub(_unit, raw.decode("latin-1"))
    for line in rtf_to_text(text, errors="replace").split("\n"):
        maker.add("text", one_line(line.removesuffix("|").replace("|", " | ")))
    return (maker.outline(),)


def _unit(escape: re.Match[str]) -> str:
    number = escape[1]
    is_unit = len(number) <= 6 and -0x8000 <= int(number) <= 0xFFFF
    return escape[0] if is_unit else _UNKNOWN
