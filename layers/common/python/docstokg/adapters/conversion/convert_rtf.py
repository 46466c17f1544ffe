"""RTF: paragraphs and table rows."""

from striprtf.striprtf import rtf_to_text

from docstokg.adapters.conversion.convert_lines import TextMaker, one_line
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Read the text of an RTF document."""
    if not raw.lstrip().startswith(b"{\\rtf"):
        raise LoadError("not an RTF file")
    maker = TextMaker()
    # Non-ASCII bytes are escapes in the encoding that the file declares.
    for line in rtf_to_text(raw.decode("latin-1"), errors="replace").split("\n"):
        maker.add("text", one_line(line.removesuffix("|").replace("|", " | ")))
    return (maker.outline(),)
