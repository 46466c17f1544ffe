"""Stage close: the last steps of a load."""

from collections.abc import Callable, Iterator, Mapping
from itertools import batched

from docstokg.contracts.records import StoredChunk
from docstokg.domain.deadline import Deadline
from docstokg.domain.graph.linking import Linker
from docstokg.domain.identity import chunk_uuid
from docstokg.domain.text.words import fold
from docstokg.loading.context import READ_S, ROW_BATCH
from docstokg.loading.names.candidates import Labels, as_raw
from docstokg.loading.read.records import is_linked_here
from docstokg.loading.resolve.load_plan import Linking, LoadPlan
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


def relink(linking: Linking, after: str) -> Iterator[str]:
    """Relink every stored chunk that has a changed name or states an edge of this load.

    Given mentions are kept. Yields the last chunk's uuid of each batch; `after`: resume after it.
    """
    context, plan = linking.context, linking.plan
    changed_keys = Linker((key, "", True) for key in plan.changed_keys)
    loaded = {chunk_uuid(context.namespace, chunk.id) for chunk in context.staging.chunks()}
    stored = context.stores.graph_writer.labels(context.namespace)
    others = [uuid for uuid, *_ in stored if uuid > after and uuid not in loaded]
    stating = set(context.staging.evidence()) - loaded
    if not (others and (plan.changed_keys or plan.changed_heads or plan.everything or stating)):
        return
    with context.progress.stage("earlier chunks", len(others)) as advance:
        for batch in batched(others, ROW_BATCH):
            marks = context.stores.index_writer.fingerprints(context.namespace, batch)
            linkable = [uuid for uuid in batch if uuid in marks and is_linked_here(marks[uuid])]
            chunks = context.stores.search_index.get(
                linkable, context.scope, Deadline.after(READ_S)
            ).chunks
            concerned = {
                uuid: chunk
                for uuid, chunk in sorted(chunks.items())
                if uuid in stating or _is_concerned(chunk, plan, changed_keys)
            }
            if concerned:
                _link(linking, concerned)
            advance(len(batch))
            yield batch[-1]


def _is_concerned(chunk: StoredChunk, plan: LoadPlan, changed_keys: Linker) -> bool:
    if plan.everything or changed_keys.find(chunk.text):
        return True
    heads = Labels().heads(chunk) if plan.changed_heads else ()
    return any(fold(head) in plan.changed_heads for head in heads)


def _link(linking: Linking, chunks: Mapping[str, StoredChunk]) -> None:
    context = linking.context
    ends_by_chunk = context.stores.graph_writer.relation_ends(context.namespace, list(chunks))
    mentions = {}
    for uuid, chunk in chunks.items():
        ends = {*ends_by_chunk.get(uuid, ()), *context.staging.endpoints(uuid)}
        mentions[uuid] = linking.finder.mentions(as_raw(chunk), uuid, sorted(ends))
    linking.resolver.write_named(row.entity for rows in mentions.values() for row in rows)
    context.stores.graph_writer.put_mentions(context.namespace, mentions)
    context.report.relinked += len(mentions)


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
