"""Zip and XML."""

import io
import posixpath
import zipfile
import zlib
from functools import lru_cache
from gzip import GzipFile
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from docstokg.errors import LoadError

# Maximum uncompressed bytes of a package.
LARGEST = 200 * 1024 * 1024

# In place of a missing element.
MISSING = Element("none")
MOST_PARTS = 20_000
DEEPEST = 200
_LINKS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


class Package:
    """The parts of a zip file; `kind`: format name for errors."""

    def __init__(self, raw: bytes, kind: str) -> None:
        self.kind = kind
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(raw))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as broken:
            raise LoadError(f"not a valid {kind}") from broken
        parts = self._zip.infolist()
        size = sum(part.file_size for part in parts)
        if size > LARGEST:
            raise LoadError(f"unpacks to {size:,} bytes, more than {LARGEST:,}")
        if len(parts) > MOST_PARTS:
            raise LoadError(f"contains {len(parts):,} files, more than {MOST_PARTS:,}")
        self.names = [part.filename for part in parts if not part.is_dir()]

    def read(self, name: str) -> bytes:
        """Return a part's bytes; raise `LoadError` if it is missing or unreadable."""
        try:
            return self._zip.read(name)
        except RuntimeError as locked:
            raise LoadError("the file is encrypted") from locked
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as broken:
            raise LoadError(f"not a valid {self.kind}: {name[:80]} cannot be read") from broken

    def tree(self, name: str) -> Element:
        """Parse a part; raise `LoadError` if it is missing or not XML."""
        try:
            return parse(self.read(name))
        except LoadError as broken:
            raise LoadError(f"not a valid {self.kind}: {broken}") from broken

    def optional(self, name: str) -> Element:
        """Parse a part, or return an empty element if missing; raise `LoadError` if not XML."""
        return self.tree(name) if name in self.names else MISSING

    def links(self, part: str) -> dict[str, tuple[str, str]]:
        """Map internal links of an Office part, if any: id -> (type, part name)."""
        folder, name = posixpath.split(part)
        return {
            link.get("Id", ""): (
                posixpath.basename(link.get("Type", "")),
                posixpath.normpath(posixpath.join("/", folder, link.get("Target", ""))).lstrip("/"),
            )
            for link in self.optional(posixpath.join(folder, "_rels", f"{name}.rels"))
            if link.get("TargetMode") != "External"
        }

    def main(self) -> str:
        """Return the name of an Office document's main part."""
        for kind, name in self.links("").values():
            if kind == "officeDocument":
                return name
        raise LoadError(f"not a valid {self.kind}: no main part")

    def title(self, part: str = "docProps/core.xml") -> str:
        """Return the title in a part with the document's properties, "" if missing."""
        return (next(self.optional(part).iter("title"), MISSING).text or "").strip()


def part_of(element: Element, path: str) -> Element:
    """Return the first part of an element at a path, or an empty element."""
    part = element.find(path)
    return MISSING if part is None else part


def unpacked(raw: bytes) -> bytes:
    """Return the content of a gzip file; raise `LoadError` if damaged or above `LARGEST` bytes."""
    try:
        with GzipFile(fileobj=io.BytesIO(raw)) as packed:
            inner = packed.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as broken:
        raise LoadError("not a gzip file, or truncated") from broken
    if len(inner) > LARGEST:
        raise LoadError(f"unpacks to more than {LARGEST:,} bytes")
    return inner


def check_depth(depth: int) -> None:
    """Raise `LoadError` for nesting deeper than `DEEPEST`."""
    if depth > DEEPEST:
        raise LoadError(f"nested deeper than {DEEPEST} levels")


def parse(raw: bytes) -> Element:
    """Parse XML into elements with local names; Office link attributes become `rel:id`.

    Raises `LoadError` for invalid XML, declared entities, and nesting deeper than `DEEPEST`.
    """
    builder = TreeBuilder()
    begin, finish = builder.start, builder.end
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            check_depth(depth)
        begin(_local(tag), {_local(key): value for key, value in attributes.items()})

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        finish(tag)

    def declared(*_: object) -> None:
        raise LoadError("the XML declares entities, which are not supported")

    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = declared
    try:
        parser.Parse(raw, True)
        return builder.close()
    except (expat.ExpatError, ValueError, LookupError, AssertionError) as broken:
        raise LoadError(f"invalid XML ({broken})") from broken


@lru_cache(10_000)
def _local(name: str) -> str:
    space, _, local = name.rpartition("}")
    return f"rel:{local}" if space == _LINKS else local
