"""Protection of keyless servers against other sites and DNS rebinding."""

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from ulid import ULID

from docstokg.usecases.problems import problem_reply

FOREIGN_HOST = (
    "This server asks for no key, so it answers under a loopback name only; list other names in "
    "DOCSTOKG_HOSTS, or set DOCSTOKG_AUTH=keys."
)


def is_own(name: str | None, listed: Collection[str]) -> bool:
    """Return whether a host name is loopback or listed."""
    if not name:
        return False
    name = name.lower().rstrip(".")
    if name == "localhost" or name in listed:
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def host_of(value: str | None) -> str | None:
    """Return the host in a Host header or an Origin, in lower case; None if invalid."""
    if not value:
        return None
    try:
        return urlsplit(value if "://" in value else f"//{value}").hostname
    except ValueError:
        return None


class CrossOrigin(CORSMiddleware):
    """CORS, without access to private networks for a refused preflight request."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the reply to a preflight request."""
        reply = super().preflight_response(request_headers)
        if reply.status_code != 200:
            del reply.headers["Access-Control-Allow-Private-Network"]
        return reply


class OwnHosts:
    """Refuses (403) requests whose Host is neither loopback nor listed."""

    def __init__(self, app: ASGIApp, listed: Collection[str]) -> None:
        self._app, self._listed = app, frozenset(name.lower() for name in listed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application if the Host is allowed."""
        host = host_of(Headers(scope=scope).get("host")) if scope["type"] == "http" else "localhost"
        if is_own(host, self._listed):
            await self._app(scope, receive, send)
            return
        reply = problem_reply(403, "foreign_host", FOREIGN_HOST, str(ULID()))
        refused = Response(reply.body, 403, {**reply.headers, "Connection": "close"})
        await refused(scope, receive, send)
