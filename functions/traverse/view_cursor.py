"""Unsigned cursor of a graph view."""

from typing import Annotated

from pydantic import Field

from docstokg.contracts.model import Many, StrictContract
from docstokg.contracts.records import Scope
from docstokg.contracts.request import Filter, NodeId, Query
from docstokg.contracts.traverse import Frontier
from docstokg.domain import base64url
from docstokg_functions.traverse.walk import WalkRequest

PREFIX = "view."
# A view is small: half of its twenty seeds, and of each layer, are expanded.
VIEW_FRONTIER = Frontier(top_k=10)


class ViewCursor(StrictContract):
    """Parameters of a view's walk."""

    seeds: Annotated[Many[NodeId], Field(min_length=1, max_length=50)]
    query: Query
    max_depth: int = Field(ge=1, le=5)
    soft_depth: int = Field(ge=1, le=5)
    max_nodes: int = Field(ge=1, le=200)
    relations: Annotated[Many[str], Field(max_length=50)] | None = None
    filter: Filter | None = None

    def walk(self) -> WalkRequest:
        """Return the walk of the view."""
        fields = self.model_dump(exclude={"filter"})
        return WalkRequest(**fields, direction="both", frontier=VIEW_FRONTIER)


def write_cursor(request: WalkRequest, scope: Scope) -> str:
    """Return the cursor of a view."""
    fields = {name: getattr(request, name) for name in ViewCursor.model_fields if name != "filter"}
    cursor = ViewCursor(**fields, filter=scope.filter)
    text = cursor.model_dump_json(exclude_none=True).encode()
    return PREFIX + base64url.encode(text)


def read_cursor(text: str) -> ViewCursor | None:
    """Parse a cursor; return None if it is invalid."""
    try:
        return ViewCursor.model_validate_json(base64url.decode(text.removeprefix(PREFIX)))
    except ValueError:
        return None
