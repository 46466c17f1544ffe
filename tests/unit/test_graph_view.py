"""The graph view keeps to its bytes: the best nodes stay, and no edge hangs in the air."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from docstokg.contracts.records import Scope
from docstokg.contracts.response import GraphNode, GraphViewEdge
from docstokg.domain.budget import nested_json_bytes
from docstokg_functions.traverse.traverse import view_within
from docstokg_functions.traverse.view_cursor import VIEW_FRONTIER, read_cursor, write_cursor
from docstokg_functions.traverse.walk import WalkRequest

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=12, unique=True), st.integers(0, 4000))
def test_the_view_fits_and_is_connected(names: list[str], limit: int) -> None:
    nodes = [
        GraphNode(id=name, label="Entity", title=name, score=place)
        for place, name in enumerate(names)
    ]
    edges = [
        GraphViewEdge(src=first, dst=second, type="T", depth=1, path=(first, second))
        for first, second in itertools.pairwise(names)
    ]
    view_nodes, view_edges = view_within(nodes, edges, limit)
    size = sum(nested_json_bytes(item.model_dump_json()) for item in (*view_nodes, *view_edges))
    assert size <= limit
    ids = {node.id for node in view_nodes}
    assert all({edge.src, edge.dst} <= ids for edge in view_edges)
    # The best come first: nothing left out scores more than what is shown.
    lowest = min((node.score for node in view_nodes), default=None)
    assert lowest is None or all(node.score < lowest for node in nodes if node.id not in ids)
    if limit == 4000 and len(names) <= 3:
        assert (list(view_nodes), list(view_edges)) == (nodes, edges)


def test_the_cursor_keeps_relations_longer_in_lowercase() -> None:
    """A fuzzed request: 128 ligatures are a legal name, and 384 letters when they are folded."""
    relation = ("\ufb03" * 128).casefold()
    request = WalkRequest(
        query="What is it?",
        seeds=("HP:1",),
        direction="both",
        max_depth=5,
        soft_depth=3,
        max_nodes=200,
        frontier=VIEW_FRONTIER,
        relations=(relation,),
    )
    cursor = read_cursor(write_cursor(request, Scope(namespace="default")))
    assert cursor is not None
    assert cursor.walk() == request
