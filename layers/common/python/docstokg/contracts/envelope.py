"""Around every route: who asks, what comes in, what goes out."""

from typing import Literal

from docstokg.contracts.model import Contract
from docstokg.contracts.records import Filters, Scope

Route = Literal["answer", "search", "check", "traverse", "mcp"]


class Caller(Contract):
    """Who asks; "*" in `namespaces` or `groups` stands for all."""

    sub: str
    namespaces: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    def may_read(self, namespace: str) -> bool:
        """Tell whether a namespace is granted."""
        return bool({"*", namespace} & set(self.namespaces))

    def scope(self, namespace: str, filters: Filters | None = None) -> Scope:
        """Give what of a granted namespace this caller may see."""
        groups = None if "*" in self.groups else self.groups
        return Scope(namespace=namespace, groups=groups, filter=filters)


class Envelope(Contract):
    """What a route's function or the state machine receives: the body stays base64 until parsed."""

    route: Route
    request_id: str
    caller: Caller
    body_b64: str


class Reply(Contract):
    """What a route or the state machine returns: `body` is a JSON string."""

    statusCode: int
    body: str
    headers: dict[str, str] = {}
