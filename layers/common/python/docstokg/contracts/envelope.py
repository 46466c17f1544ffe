"""Caller, envelope, reply."""

import base64
from collections.abc import Iterable
from typing import Self

from docstokg.contracts.model import Contract
from docstokg.contracts.records import Filters, Scope
from docstokg.contracts.request import DEFAULT_NAMESPACE
from docstokg.contracts.routes import RouteName


class Caller(Contract):
    """The caller of a request; "*" in `namespaces`, `groups` or `load` means all.

    `load`: namespaces whose documents the caller may load, replace and remove.
    """

    sub: str
    namespaces: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    load: tuple[str, ...] = ()

    def may_read(self, namespace: str) -> bool:
        """Return whether the caller may read a namespace."""
        return bool({"*", namespace} & set(self.namespaces))

    @property
    def sole_namespace(self) -> str:
        """Return the only granted namespace; `default`, which is refused, without any; else ""."""
        names = set(self.namespaces) or {DEFAULT_NAMESPACE}
        return names.pop() if len(names) == 1 and "*" not in names else ""

    def may_load(self, namespace: str) -> bool:
        """Return whether the caller may read a namespace and change its documents."""
        return self.may_read(namespace) and bool({"*", namespace} & set(self.load))

    def sees(self, acl: Iterable[str]) -> bool:
        """Return whether items with this access list (empty: public) are visible, if granted."""
        acl_groups = set(acl)
        return not acl_groups or "*" in self.groups or not acl_groups.isdisjoint(self.groups)

    def scope(self, namespace: str, filters: Filters | None = None, *others: str) -> Scope:
        """Return the caller's scope; namespaces are not checked."""
        groups = None if "*" in self.groups else self.groups
        return Scope(namespace=namespace, others=others, groups=groups, filter=filters)


class Envelope(Contract):
    """Input of a route's function or the state machine; the body is base64.

    `headers`: the HTTP headers that the route `mcp` reads; null without HTTP.
    """

    route: RouteName
    request_id: str
    caller: Caller
    body_b64: str
    headers: dict[str, str] | None = None

    @classmethod
    def of(cls, route: RouteName, request_id: str, caller: Caller, body: bytes) -> Self:
        """Return the envelope of a client request."""
        text = base64.b64encode(body).decode()
        return cls(route=route, request_id=request_id, caller=caller, body_b64=text)


class Reply(Contract):
    """Output of a route or the state machine; `body` is a JSON string."""

    statusCode: int
    body: str
    headers: dict[str, str] = {}
