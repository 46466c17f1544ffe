"""`docstokg entities`: which names are of one thing, as texts say or as you decide."""

from typing import TYPE_CHECKING, Annotated

import typer

from docstokg_local.cli.options import Graph, Index, Namespace, argument, wiring_of
from docstokg_local.cli.printing import say

if TYPE_CHECKING:
    from docstokg.loading.context import Stores

Name = Annotated[str, argument("NAME", "A name, or an entity's id.")]

BY_HAND = {"reason": "by hand"}

entities = typer.Typer(help="One thing under two names.", no_args_is_help=True)


@entities.command("list")
def list_names(namespace: Namespace = "default", index: Index = None, graph: Graph = None) -> None:
    """List pairs of names that texts or decisions equate, each with its source."""
    show(_stores(namespace, index, graph), namespace)


@entities.command()
def merge(
    one: Name, two: Name, namespace: Namespace = "default", index: Index = None, graph: Graph = None
) -> None:
    """Merge two names of one thing in every question; `split` reverts it."""
    decide(_stores(namespace, index, graph), namespace, (one, two), same=True)


@entities.command()
def split(
    one: Name, two: Name, namespace: Namespace = "default", index: Index = None, graph: Graph = None
) -> None:
    """Keep two names apart, even if texts equate them; `merge` reverts it."""
    decide(_stores(namespace, index, graph), namespace, (one, two), same=False)


def _stores(namespace: str, index: str | None, graph: str | None) -> "Stores":
    from docstokg_local.loading.stores import stores_of

    return stores_of(wiring_of(index, graph))


def decide(stores: "Stores", namespace: str, names: tuple[str, str], same: bool) -> None:
    """Note that two names are, or are not, of one thing; wrong usage is `typer.BadParameter`.

    The decision outlives loads, and comes before what texts say; another one takes its place.
    """
    from docstokg.contracts.records import RelationRecord
    from docstokg.domain.graph.same_names import SAME_AS, are_distinct
    from docstokg.loading.context import NullProgress
    from docstokg.loading.write.removal import exclusive_load

    ids = [_identity(stores, namespace, name) for name in names]
    source, target = sorted(ids)
    if source == target:
        raise typer.BadParameter(f"{names[0]!r} and {names[1]!r} are one entity, {source}")
    if same and are_distinct(source, target):
        raise typer.BadParameter(f"{source} and {target} are listed as two: they are never merged")
    relation = RelationRecord(
        namespace=namespace,
        source=source,
        type=SAME_AS,
        target=target,
        weight=1.0 if same else 0.0,
        properties=BY_HAND,
    )
    with exclusive_load(stores.index_writer, NullProgress()):
        stores.graph_writer.put_relations([relation])
        stores.graph_writer.close_load()
    say(f"{names[0]} and {names[1]} are {'one thing' if same else 'two things'} in {namespace}")


def show(stores: "Stores", namespace: str) -> None:
    """Print every pair of names with its source: a passage and its span, or a decision."""
    from docstokg.domain.graph.same_names import SAME_AS

    names = {entity.id: entity.name for entity in stores.graph_writer.stored_entities(namespace)}
    for row in stores.graph_writer.stored_relations(namespace):
        if row.type == SAME_AS:
            one, two = names.get(row.source, row.source), names.get(row.target, row.target)
            place = f", {row.evidence_uuid} {row.evidence_start}..{row.evidence_end}"
            sign, where = "=" if row.weight else "!=", place if row.evidence_uuid else ""
            say(f"{one} {sign} {two}  ({row.properties.get('reason', 'a file')}{where})")


def _identity(stores: "Stores", namespace: str, name: str) -> str:
    """Return the only entity of a name or id."""
    from docstokg.domain.text.words import fold

    found = [
        (not preferred, identity)
        for key, identity, preferred in stores.graph_writer.aliases(namespace)
        if identity == name or key == fold(name)
    ]
    best = {identity for other, identity in found if other == min(found)[0]}
    if len(best) != 1:
        why = f"names {', '.join(sorted(best))}" if best else "is no entity here"
        raise typer.BadParameter(f"{name!r} {why}")
    return best.pop()
