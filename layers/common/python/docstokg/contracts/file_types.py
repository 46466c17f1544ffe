"""File formats by name."""

import mimetypes
import re
from pathlib import PurePath

# Maximum line length of code or settings that are not generated.
LONGEST_LINE = 5_000

GENERATED = f"minified or generated: a line has over {LONGEST_LINE:,} characters"

_FORMATS = {
    ".md": ".markdown .mkd",
    ".rst": "",
    ".html": ".htm .xhtml",
    ".docx": ".docm .dotx",
    ".pdf": "",
    ".csv": ".tsv .tab .psv",
    ".ipynb": "",
    ".json": ".geojson .jsonl .ndjson",
    ".xlsx": ".xlsm",
    ".ods": "",
    ".pptx": ".pptm .ppsx",
    ".odt": "",
    ".odp": "",
    ".rtf": "",
    ".epub": "",
    ".eml": "",
    ".mbox": "",
    ".conf": ".yaml .yml .toml .ini .cfg .properties .desktop .service",
    ".man": "",
    ".code": (
        ".py .pyi .pyx .js .mjs .cjs .jsx .ts .tsx .mts .cts .java .kt .scala .groovy .c .h .cc"
        " .cpp .cxx .hh .hpp .cs .go .rs .rb .php .pl .pm .lua .r .jl .swift .m .hs .ml .ex .exs"
        " .erl .clj .el .lisp .scm .sh .bash .zsh .fish .ps1 .bat .sql .cypher .proto .graphql .css"
        " .scss .less .vue .cmake .mk .gradle .tcl .vim .f90 .f .asm .s .d .dart .nim .zig .tf"
    ),
    ".zip": "",
    ".txt": (".xml .xsd .xsl .xslt .rss .atom .wsdl .dbk .docbook .opml .tex .ltx .sty .cls .org"),
}
# Format of each file suffix.
SUFFIXES = {suffix: kind for kind, others in _FORMATS.items() for suffix in (kind, *others.split())}

_KEYS = re.compile(
    r"id_(?:rsa|dsa|ecdsa|ed25519).*|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|asc|gpg|ppk)"
    r"|(?:.*[._-])?(?:passwords?|passwd|shadow|secrets?|credentials?|htpasswd|netrc|pgpass)"
    r"(?:\.(?:txt|json|ya?ml|toml|ini|cfg|conf|csv|env))?|.*\.env"
)
_LOCKS = re.compile(
    r".*\.lock(?:file|b)?|.*-lock\.(?:json|ya?ml)|npm-shrinkwrap\.json|go\.sum|.*\.lock\.hcl"
)
_MINIFIED = re.compile(r".*[.-]min\.(?:js|mjs|css|html)|.*\.(?:js|css|mjs|cjs|ts)\.map")
_MANUAL = re.compile(r"\.[1-8][a-z]*")
# Marks of GNU Info files: an index, or an image with its description.
INFO_MARK = re.compile(rb"\0\x08\[(?:index|image[^\0]{0,2000})\0\x08\]")
_TYPES = mimetypes.MimeTypes(filenames=())
_MEDIA = frozenset(("image", "audio", "video", "font"))


def format_of(path: PurePath) -> str:
    """Return a file's format as a suffix; "" if unknown. Packed: with `.gz`, default `.txt.gz`."""
    if path.suffix.lower() == ".gz":
        inner = format_of(PurePath(path.stem)) or ".txt"
        return inner if inner.endswith(".gz") else f"{inner}.gz"
    ending = path.suffix.lower()
    return SUFFIXES.get(ending) or (".man" if _MANUAL.fullmatch(ending) else "")


def skipped(path: PurePath) -> str:
    """Return the reason why a file of this name is not loaded, or ""."""
    name = path.name.lower()
    if any(part.startswith(".") for part in path.parts):
        return "hidden"
    if _KEYS.fullmatch(name):
        return "the name suggests keys or passwords"
    if _LOCKS.fullmatch(name):
        return "a lock file"
    if _MINIFIED.fullmatch(name):
        return "the name suggests a generated file"
    kind = (_TYPES.guess_type(name)[0] or "").partition("/")[0]
    return f"no reader for {path.suffix.lower()}" if kind in _MEDIA else ""


def has_long_line(text: str) -> bool:
    """Return whether a line has more than 5,000 characters."""
    return any(len(line) > LONGEST_LINE for line in text.splitlines())
