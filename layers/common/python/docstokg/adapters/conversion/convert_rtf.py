"""RTF: its paragraphs; a row of a table is one, its cells apart."""

from striprtf.striprtf import rtf_to_text

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Take the words of an RTF document."""
    if not raw.lstrip().startswith(b"{\\rtf"):
        raise LoadError("it is no RTF")
    maker = TextMaker()
    # Bytes that are no ASCII are written as escapes, in the encoding that the file names.
    for line in rtf_to_text(raw.decode("latin-1"), errors="replace").split("\n"):
        maker.add("text", one_line(line.removesuffix("|").replace("|", " | ")))
    return (maker.outline(),)
