"""Stage resolve: the plan of a load, from staged rows and stored content."""

from collections.abc import Sequence, Set

from docstokg.loading.context import Context
from docstokg.loading.names.candidates import labels_of, leaving_of, recogniser_of, stage_names
from docstokg.loading.names.naming import Aliases, Names, changed_keys
from docstokg.loading.resolve.affected import (
    UNREAD,
    Changes,
    Unread,
    complete_names,
    stage_affected,
)
from docstokg.loading.resolve.entity_resolver import desired_by_id, listed_names
from docstokg.loading.resolve.load_plan import Linking, LoadPlan
from docstokg.loading.write.edges import resolve_edges


def plan_load(context: Context, removed: Sequence[str]) -> Linking:
    """Open the load, compute its plan, and write lists, ontologies and changed entities.

    `removed`: ids of documents to remove at the end. Raises `Unread` if the namespace needs a
    recogniser that is not installed.
    """
    is_renamed = open_load(context)
    everything = context.options.rebuild or context.is_unfinished or is_renamed
    leaving = leaving_of(context, removed)
    is_named = _complete_names(context, leaving, everything, is_renamed)
    linking = Linking.of(context, compute_plan(context, removed, leaving, everything, is_named))
    linking.resolver.write_listed()
    if not everything:
        linking.resolver.write_changed(linking.plan.affected)
    return linking


def open_load(context: Context) -> bool:
    """Open the load in both stores; return whether the namespace had another recogniser."""
    graph, report = context.stores.graph_writer, context.report
    context.stores.index_writer.open_load(
        report.run_id, context.model, context.dimension, report.sparse_model, context.namespace
    )
    report.names_by = recogniser_of(context)
    if graph.recogniser(context.namespace) == report.names_by:
        return False
    graph.note_recogniser(context.namespace, "")
    return True


def _complete_names(
    context: Context, leaving: Set[str], everything: bool, is_renamed: bool
) -> bool:
    if context.earlier is not None and not context.earlier:
        return False
    try:
        complete_names(context, leaving, check=everything)
    except Unread:
        if is_renamed:
            raise
        context.report.warnings.append(UNREAD)
        return False
    return True


def compute_plan(
    context: Context, removed: Sequence[str], leaving: Set[str], everything: bool, is_named: bool
) -> LoadPlan:
    """Compute the names, entities and edges of a load; write nothing but the staging area.

    `leaving`: see `leaving_of`. `everything`: compute the names and mentions of all stored chunks
    again. `is_named`: the names of all stored chunks are known.
    """
    before, labels = labels_of(context, leaving)
    stage_names(context, labels)
    stored = tuple(context.stores.graph_writer.aliases(context.namespace))
    old_aliases, old_names = Aliases(stored), Names()
    old_names.add(old_aliases.of_curies())
    aliases, names = listed_names(context, stored)
    listed = old_names.changed(names) if context.staging.count("entity") else set()
    affected: Set[str] = frozenset()
    if is_named:
        every = {entry[1] for entry in stored} if everything else None
        affected = stage_affected(context, Changes((before, labels), leaving, listed), every)
    entities = desired_by_id(context, aliases, names, affected)
    resolve_edges(context, names, frozenset(removed))
    entries = list(aliases.for_linking(names, labels, affected - entities.keys()))
    return LoadPlan(
        entities=entities,
        aliases=entries,
        labels=labels,
        changed_keys=changed_keys(old_aliases.for_linking(old_names, before, set()), entries),
        changed_heads=listed | (before.common ^ labels.common),
        everything=everything,
        recogniser=context.report.names_by or "",
        removed=removed,
        affected=affected,
    )
