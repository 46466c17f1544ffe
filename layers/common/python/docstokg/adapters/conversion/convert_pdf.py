"""PDF by pypdf: the text layer page by page; no action, link or attachment is looked at."""

import io

from pypdf import PdfReader
from pypdf.errors import PyPdfError

from docstokg.adapters.conversion.convert_lines import TextMaker
from docstokg.contracts.outline import Outline
from docstokg.errors import LoadError

MOST_PAGES = 20_000


def convert(raw: bytes) -> tuple[Outline, ...]:
    """Take every page's text; `LoadError` for an encrypted file and one without a text layer."""
    try:
        reader = PdfReader(io.BytesIO(raw))
        if reader.is_encrypted and not reader.decrypt(""):
            raise LoadError("it is encrypted")
        if len(reader.pages) > MOST_PAGES:
            raise LoadError(f"it has more than {MOST_PAGES:,} pages")
        maker = TextMaker()
        for number, page in enumerate(reader.pages, 1):
            maker.page(str(number))
            text = page.extract_text().replace("\0", "")
            for paragraph in text.split("\n\n"):
                maker.add("text", paragraph.strip("\n"))
        title = (reader.metadata.title or "") if reader.metadata is not None else ""
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError) as broken:
        # A hostile file reaches every corner of a PDF reader.
        raise LoadError(f"it is no PDF that can be read ({type(broken).__name__})") from broken
    except ImportError as missing:
        raise LoadError("it is encrypted in a way that is not supported") from missing
    made = maker.outline(title if isinstance(title, str) else "")
    if not made.text.strip():
        raise LoadError("it has no text layer (scanned pages are not read)")
    return (made,)
