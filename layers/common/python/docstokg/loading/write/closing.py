"""Stage close: the last steps of a load."""

from collections.abc import Callable, Iterator

from docstokg.loading.resolve.load_plan import Linking
from docstokg.loading.resolve.relinking import relink
from docstokg.loading.write.edges import write_edges
from docstokg.loading.write.removal import remove_documents, remove_emptied

# Name of a step and its last finished row, "" for none.
type Position = tuple[str, str]


def close_load(linking: Linking, begin: Position = ("stale", "")) -> Iterator[Position]:
    """Remove documents, write edges, relink stored chunks, write the register, end the load.

    Yields the position after each batch and step, from which another process can resume (`begin`).
    The load stays open until the last step.
    """
    first, after = begin
    names = list(STEPS)
    for name in names[names.index(first) :]:
        if name != first:
            yield name, ""
        for row in STEPS[name](linking, after if name == first else ""):
            yield name, row


def _close_graph(linking: Linking, _: str) -> Iterator[str]:
    context = linking.context
    graph = context.stores.graph_writer
    graph.note_recogniser(context.namespace, linking.plan.recogniser)
    graph.close_load(context.namespace)
    return iter(())


def _write_register(linking: Linking, after: str) -> Iterator[str]:
    context = linking.context
    return context.registry.write(context.staging, context.report.run_id, after)


def _close_index(linking: Linking, _: str) -> Iterator[str]:
    linking.context.stores.index_writer.close_load(linking.context.namespace)
    return iter(())


# Each continues after a row, and yields its last finished row after each batch.
STEPS: dict[str, Callable[[Linking, str], Iterator[str]]] = {
    "stale": remove_emptied,
    "gone": remove_documents,
    "edges": write_edges,
    "earlier": relink,
    "graph": _close_graph,
    "register": _write_register,
    "index": _close_index,
}
