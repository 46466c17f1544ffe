"""Around every route: who asks, what comes in, what goes out."""

import base64
from collections.abc import Iterable
from typing import Self

from docstokg.contracts.model import Contract
from docstokg.contracts.records import Filters, Scope
from docstokg.contracts.routes import RouteName


class Caller(Contract):
    """Who asks; "*" in `namespaces`, `groups` or `load` stands for all.

    `load`: the namespaces whose documents this caller may load, replace and remove.
    """

    sub: str
    namespaces: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    load: tuple[str, ...] = ()

    def may_read(self, namespace: str) -> bool:
        """Tell whether a namespace is granted."""
        return bool({"*", namespace} & set(self.namespaces))

    def may_load(self, namespace: str) -> bool:
        """Tell whether documents of a namespace may be changed; that needs reading it, too."""
        return self.may_read(namespace) and bool({"*", namespace} & set(self.load))

    def sees(self, acl: Iterable[str]) -> bool:
        """Tell whether something with this access list may be seen in a granted namespace."""
        acl_groups = set(acl)
        return not acl_groups or "*" in self.groups or not acl_groups.isdisjoint(self.groups)

    def scope(self, namespace: str, filters: Filters | None = None, *others: str) -> Scope:
        """Give what of granted namespaces this caller may see."""
        groups = None if "*" in self.groups else self.groups
        return Scope(namespace=namespace, others=others, groups=groups, filter=filters)


class Envelope(Contract):
    """What a route's function or the state machine receives: the body stays base64 until parsed."""

    route: RouteName
    request_id: str
    caller: Caller
    body_b64: str

    @classmethod
    def of(cls, route: RouteName, request_id: str, caller: Caller, body: bytes) -> Self:
        """Write what a client sent as a route's function receives it."""
        text = base64.b64encode(body).decode()
        return cls(route=route, request_id=request_id, caller=caller, body_b64=text)


class Reply(Contract):
    """What a route or the state machine returns: `body` is a JSON string."""

    statusCode: int
    body: str
    headers: dict[str, str] = {}
