"""`docstokg entities`."""

from typing import TYPE_CHECKING, Annotated

import typer

from docstokg_local.cli.options import Graph, Index, Namespace, argument, wiring_of
from docstokg_local.cli.printing import echo

if TYPE_CHECKING:
    from docstokg.loading.context import Stores
    from docstokg.ports import ObjectStore
    from docstokg.wiring import Wiring

Name = Annotated[str, argument("NAME", "Name or id of an entity.")]

BY_HAND = {"reason": "by hand"}

entities = typer.Typer(
    help="List, merge and split entities that have several names.", no_args_is_help=True
)


@entities.command("list")
def list_names(namespace: Namespace = "default", index: Index = None, graph: Graph = None) -> None:
    """List names that texts or decisions equate or separate, each with its source."""
    print_pairs(_stores(wiring_of(index, graph)), namespace)


@entities.command()
def merge(
    first: Name,
    second: Name,
    namespace: Namespace = "default",
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Treat two names as one entity in every question; `split` reverts it."""
    _decide(wiring_of(index, graph), namespace, (first, second), same=True)


@entities.command()
def split(
    first: Name,
    second: Name,
    namespace: Namespace = "default",
    index: Index = None,
    graph: Graph = None,
) -> None:
    """Treat two names as different entities, even if texts equate them; `merge` reverts it."""
    _decide(wiring_of(index, graph), namespace, (first, second), same=False)


def _stores(wiring: "Wiring") -> "Stores":
    from docstokg_local.loading.stores import stores_of

    return stores_of(wiring)


def _decide(wiring: "Wiring", namespace: str, names: tuple[str, str], same: bool) -> None:
    objects = wiring.object_store() if wiring.settings.ingest_url else None
    decide(_stores(wiring), namespace, names, same, objects)


def decide(
    stores: "Stores",
    namespace: str,
    names: tuple[str, str],
    same: bool,
    objects: "ObjectStore | None" = None,
) -> None:
    """Store that two names are, or are not, one entity; raise `typer.BadParameter` if impossible.

    The decision persists across loads and overrides statements of texts. `objects`: the bucket
    from which a restore takes it.
    """
    from docstokg.contracts.records import RelationRecord
    from docstokg.domain.graph.same_names import SAME_AS, are_distinct
    from docstokg.loading.run.restoring import copy_decision, put_decisions

    ids = [_identity(stores, namespace, name) for name in names]
    source, target = sorted(ids)
    if source == target:
        raise typer.BadParameter(f"{names[0]!r} and {names[1]!r} are one entity, {source}")
    if same and are_distinct(source, target):
        raise typer.BadParameter(
            f"{source} and {target} both have ids of their own and cannot be merged"
        )
    relation = RelationRecord(
        namespace=namespace,
        source=source,
        type=SAME_AS,
        target=target,
        weight=1.0 if same else 0.0,
        properties=BY_HAND,
    )
    put_decisions(namespace, stores, [relation])
    if objects:
        copy_decision(relation, objects)
    state = "one entity" if same else "different entities"
    echo(f"{names[0]} and {names[1]} are {state} in {namespace}")


def print_pairs(stores: "Stores", namespace: str) -> None:
    """Print every pair of equal (=) or different (!=) names with its source.

    Sources: a passage with its span, a decision, or a file.
    """
    from docstokg.domain.graph.same_names import SAME_AS

    names = {entity.id: entity.name for entity in stores.graph_writer.stored_entities(namespace)}
    for row in stores.graph_writer.stored_relations(namespace):
        if row.type == SAME_AS:
            first, second = names.get(row.source, row.source), names.get(row.target, row.target)
            place = f", {row.evidence_uuid} {row.evidence_start}..{row.evidence_end}"
            sign, suffix = "=" if row.weight else "!=", place if row.evidence_uuid else ""
            echo(f"{first} {sign} {second}  ({row.properties.get('reason', 'a file')}{suffix})")


def _identity(stores: "Stores", namespace: str, name: str) -> str:
    from docstokg.domain.text.words import fold

    identities = [
        (not preferred, identity)
        for key, identity, preferred in stores.graph_writer.aliases(namespace)
        if identity == name or key == fold(name)
    ]
    best = {identity for other, identity in identities if other == min(identities)[0]}
    if len(best) != 1:
        why = f"is ambiguous: {', '.join(sorted(best))}" if best else "is not a known entity"
        raise typer.BadParameter(f"{name!r} {why}")
    return best.pop()
