"""Static files with security headers."""

import json
from dataclasses import asdict, dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
# The interactive reference writes styles into its elements.
DOCS_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

_NAMED = ("page.css", "page.js", "sign-in.js", "signed-in.js", "graph.js", "curl.js", "keeping.js",
          "library.js", "paper.js", "docs.js", "words.js", "icon.svg")  # fmt: skip
_PAGES = {"/": "index.html", "/docs": "docs.html", "/signed-in": "signed-in.html"}
# Path to file; nothing else is ever read, so no path can leave the folder.
FILES = _PAGES | {f"/{name}": name for name in _NAMED}

# Path to file of the installed package swagger-ui-bundle; nothing else of it is served.
VIEWER = {
    "/docs/swagger-ui.css": "swagger-ui.css",
    "/docs/swagger-ui-bundle.js": "swagger-ui-bundle.js",
}

# Sign-in settings as JSON: `{}` if users paste a key or a token.
SIGN_IN = "/sign-in.json"

TYPES = {
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class SignIn:
    """A public OAuth client of the trusted issuer (authorization code with PKCE).

    `scope`: separated by spaces; `openid` enables the nonce check.
    """

    client_id: str
    authorize_url: str
    token_url: str
    scope: str = "openid"


class StaticFile(NamedTuple):
    """Body and headers of a static file."""

    body: bytes
    headers: dict[str, str]


def static_file(path: str, sign_in: SignIn | None = None) -> StaticFile:
    """Return the file of a known path; raise `KeyError` for others or a missing viewer."""
    if path == SIGN_IN:
        addresses = asdict(sign_in) if sign_in else {}
        return StaticFile(json.dumps(addresses).encode(), _headers(path))
    if path in VIEWER:
        return StaticFile(_viewer(VIEWER[path]), _headers(path, docs=True) | {"Cache-Control": AGE})
    name = FILES[path]
    body = resources.files(__package__).joinpath("static", name).read_bytes()
    headers = _headers(name, docs=name.startswith("docs"))
    if sign_in and path == "/":
        also = f"connect-src 'self' {sign_in.token_url};"
        headers["Content-Security-Policy"] = POLICY.replace("connect-src 'self';", also)
    return StaticFile(body, headers)


# Maximum cache age in seconds; the viewer is a megabyte with a pinned version.
AGE = "max-age=86400"


def _viewer(name: str) -> bytes:
    package = find_spec("swagger_ui_bundle")
    for folder in (package.submodule_search_locations or []) if package else []:
        for file in sorted(Path(folder).glob(f"vendor/*/{name}")):
            return file.read_bytes()
    raise KeyError(name)


def _headers(name: str, *, docs: bool = False) -> dict[str, str]:
    return {
        "Content-Type": TYPES[name.rpartition(".")[2]],
        "Content-Security-Policy": DOCS_POLICY if docs else POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }


def reply(resource: str, address: str, sign_in: SignIn | None = None) -> dict[str, Any]:
    """Return a file as a gateway response with a UTF-8 body; 404 for an unknown one.

    `resource`: the gateway's path. `address`: the browser's path with the stage. Redirects the page
    without a final `/` and others with one.
    """
    if (resource == "/") != address.endswith("/"):
        # Exactly one leading slash: two would redirect to another host.
        to = f"/{address.strip('/')}".rstrip("/") + ("/" if resource == "/" else "")
        return {"statusCode": 308, "headers": {"Location": to}, "body": ""}
    try:
        file = static_file(resource, sign_in)
    except KeyError:
        return _nothing_here()
    return {"statusCode": 200, "headers": file.headers, "body": file.body.decode("utf-8")}


def _nothing_here() -> dict[str, Any]:
    problem = {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "code": "not_found",
        "detail": "There is nothing at this path.",
        "errors": [],
    }
    headers = {"Content-Type": "application/problem+json"}
    return {"statusCode": 404, "headers": headers, "body": json.dumps(problem)}
