"""The entities of a load: lists and ontologies first, then titles and the ends of triples."""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, field
from itertools import batched

from docstokg.contracts.records import EntityRecord
from docstokg.domain.identity import REDIRECT_DEPTH, is_own_id
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.names.naming import Aliases, NamedEntity, Names
from docstokg.loading.read.raw_input import RawEntity


@dataclass
class EntityResolver:
    """Every entity of a load, and which of them are written; see `resolver_of`.

    `stale`: ids of stored entities whose stored names are dropped for those of this load.
    `entities`: those that no list gave, by id.
    """

    context: Context
    names: Names
    aliases: Aliases
    entities: dict[str, NamedEntity]
    stale: Set[str] = frozenset()
    _written: set[str] = field(default_factory=set)

    def write_listed(self) -> None:
        """Write the entities of lists and ontologies."""
        context = self.context
        with context.progress.stage("entities", context.staging.count("entity")) as advance:
            for batch in batched(context.staging.entities(), ROW_BATCH, strict=False):
                self._put(batch, listed=True)
                advance(len(batch))

    def write_named(self, identities: Iterable[str]) -> None:
        """Write the entities of this load's texts that are needed now and not yet there."""
        unwritten = set(identities) - self._written
        needed = sorted(identity for identity in unwritten if identity in self.entities)
        for batch in batched(needed, ROW_BATCH, strict=False):
            rows = [self.entities[identity] for identity in batch]
            self._put([RawEntity(r.id, r.name, r.type, tuple(sorted(r.synonyms))) for r in rows])
            self._written.update(batch)

    def rewrite(self, identities: Iterable[str]) -> None:
        """Write stored entities as they are named now, before any text goes.

        One may leave the store with a text, so that whoever needs it later writes it again.
        """
        self.write_named(identities)
        self._written.clear()

    def display_names(self, identities: Iterable[str]) -> dict[str, str]:
        """Give the name of each entity, its id where nobody named it."""
        labels, missing = {}, []
        for identity in sorted(identities):
            entity = self.entities.get(identity)
            listed = None if entity else self.context.staging.entity(identity)
            name = entity.name if entity else listed.name if listed else None
            if name is None:
                missing.append(identity)
            labels[identity] = name or identity
        if missing:
            graph = self.context.stores.knowledge_graph
            stored = graph.names(missing, self.context.scope, READ_S)
            labels.update((identity, names[0]) for identity, names in stored.items() if names)
        return labels

    def _put(self, entities: Sequence[RawEntity], listed: bool = False) -> None:
        """Write entities, with a vector of the name of each that brings none."""
        context, missing = self.context, [e.name for e in entities if e.embedding is None]
        dense = context.dense if missing else None
        made = iter(dense.embed(missing, None) if dense is not None else ())
        records = []
        for entity in entities:
            fields = asdict(entity)
            vector = fields.pop("embedding") or next(made, None)
            more = {"namespace": context.namespace, "listed": listed, "vector": vector}
            records.append(EntityRecord(**fields, **more))
        context.stores.graph_writer.put_entities(records)
        context.report.entities += len(records)


def resolver_of(context: Context, stale: Set[str]) -> EntityResolver:
    """Name everything that a load brings; `stale`: see `EntityResolver`."""
    names, own = Names(), dict[str, NamedEntity]()
    aliases = Aliases(context.stores.graph_writer.aliases(context.namespace))
    for entity in context.staging.entities():
        leads_to = _current(context, entity)
        aliases.put(entity.id, entity.name, entity.synonyms, leads_to=leads_to)
    names.add(aliases.of_curies())
    for surface, kind, synonym in context.staging.names():
        identity = names.id_of_name(surface)
        if is_own_id(identity):
            entry = own.setdefault(identity, NamedEntity(identity, surface))
            entry.take(surface, kind, (synonym,) if synonym else ())
    for identities in batched(sorted(own.keys() - stale), ROW_BATCH, strict=False):
        # What earlier loads said is joined: the order of loads is no matter.
        for stored in stored_names(context, identities):
            own[stored.id].take(stored.name, stored.type, stored.synonyms)
    for entry in own.values():
        aliases.put(entry.id, entry.name, sorted(entry.synonyms))
    return EntityResolver(context, names, aliases, own, stale)


def _current(context: Context, entity: RawEntity) -> str:
    """Follow `replaced_by` through a load's entities, so that old names find new terms."""
    for _ in range(REDIRECT_DEPTH):
        following = entity.replaced_by if entity.obsolete else None
        replacement = context.staging.entity(following) if following is not None else None
        if replacement is None:
            break
        entity = replacement
    return entity.id


def stored_names(context: Context, identities: Sequence[str]) -> Iterator[NamedEntity]:
    """Read what the store says of some entities; unknown ones are left out."""
    graph, scope = context.stores.knowledge_graph, context.scope
    kinds = {entity.id: entity.type for entity in graph.entities(identities, scope, READ_S)}
    for identity, names in graph.names(identities, scope, READ_S).items():
        yield NamedEntity(identity, names[0], kinds.get(identity), set(names[1:]))
