"""Which static file a path of the page means, and the headers that guard the reader."""

from dataclasses import dataclass
from importlib import resources
from typing import Final

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
DOCS_POLICY: Final = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""The interactive reference writes styles into its elements."""

FILES: Final = {
    "/": "index.html",
    "/page.css": "page.css",
    "/page.js": "page.js",
    "/graph.js": "graph.js",
    "/curl.js": "curl.js",
    "/icon.svg": "icon.svg",
    "/docs": "docs.html",
    "/docs.js": "docs.js",
}
"""Path to file: nothing else is ever read, so no path can leave the folder."""

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is sent: body and headers."""

    body: bytes
    headers: dict[str, str]


def static_file(path: str) -> StaticFile:
    """Give the file of a known path; `KeyError` for any other."""
    name = FILES[path]
    body = resources.files(__package__).joinpath("static", name).read_bytes()
    return StaticFile(body, headers_of(name, docs=name.startswith("docs")))


def headers_of(name: str, *, docs: bool) -> dict[str, str]:
    """Give the headers of a file by its name; `docs` allows inline styles."""
    return {
        "Content-Type": TYPES[name.rpartition(".")[2]],
        "Content-Security-Policy": DOCS_POLICY if docs else POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
