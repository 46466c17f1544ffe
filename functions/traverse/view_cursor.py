"""The cursor of an answer's graph: the walk it shows, so that `/v1/traverse` can go on from it.

It holds nothing that its holder could not ask for, and sees what its holder may see: it needs no
secret.
"""

from typing import Annotated

from pydantic import Field

from docstokg.contracts.model import Many, StrictContract
from docstokg.contracts.records import Scope
from docstokg.contracts.request import Filter, Name, NodeId, Query
from docstokg.contracts.traverse import Frontier
from docstokg.domain import base64url
from docstokg_functions.traverse.walk import WalkRequest

PREFIX = "view."
VIEW_FRONTIER = Frontier(top_k=10)
"""A view is small: of its twenty seeds, and of each layer, half are expanded."""


class ViewCursor(StrictContract):
    """What a view was walked with."""

    seeds: Annotated[Many[NodeId], Field(min_length=1, max_length=50)]
    query: Query
    max_depth: int = Field(ge=1, le=5)
    soft_depth: int = Field(ge=1, le=5)
    max_nodes: int = Field(ge=1, le=200)
    relations: Annotated[Many[Name], Field(max_length=50)] | None = None
    filter: Filter | None = None

    def walk(self) -> WalkRequest:
        """Give the walk of the view."""
        asked = self.model_dump(exclude={"filter"})
        return WalkRequest(**asked, direction="both", frontier=VIEW_FRONTIER)


def write_cursor(request: WalkRequest, scope: Scope) -> str:
    """Write the cursor of a view."""
    asked = {name: getattr(request, name) for name in ViewCursor.model_fields if name != "filter"}
    cursor = ViewCursor(**asked, filter=scope.filter)
    text = cursor.model_dump_json(exclude_none=True).encode()
    return PREFIX + base64url.encode(text)


def read_cursor(text: str) -> ViewCursor | None:
    """Read it; None when it is not one."""
    try:
        return ViewCursor.model_validate_json(base64url.decode(text.removeprefix(PREFIX)))
    except ValueError:
        return None
