"""The entities of a load: lists and ontologies first, then titles and the ends of triples."""

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import batched

from docstokg.contracts.records import EntityRecord
from docstokg.domain.identity import REDIRECT_DEPTH, is_own_id
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.names.naming import Aliases, NamedEntity, Names
from docstokg.loading.read.raw_input import RawEntity


class EntityResolver:
    """Every entity of a load, and which of them are written."""

    def __init__(self, context: Context, stale: Set[str] = frozenset()) -> None:
        """`stale`: ids of stored entities whose stored names are dropped for those of this load."""
        self._context = context
        self._stale = stale
        self._own: dict[str, NamedEntity] = {}
        self._written: set[str] = set()
        self.names = Names()
        self.aliases = self._name_everything()

    @classmethod
    def decided(
        cls, context: Context, names: Names, entities: Iterable[NamedEntity], aliases: Aliases
    ) -> "EntityResolver":
        """Give the resolver of a load that was decided before, in another process."""
        made = cls.__new__(cls)
        made._context, made._stale = context, frozenset()
        made._own = {entity.id: entity for entity in entities}
        made._written = set()
        made.names, made.aliases = names, aliases
        return made

    def within(self, context: Context) -> "EntityResolver":
        """Give this resolver for another task of the same load; both know what one wrote."""
        made = EntityResolver.__new__(EntityResolver)
        made._context, made._stale = context, self._stale
        made._own, made._written = self._own, self._written
        made.names, made.aliases = self.names, self.aliases
        return made

    def own(self) -> Iterable[NamedEntity]:
        """Give the entities that no list gave, by id."""
        return (self._own[identity] for identity in sorted(self._own))

    def _name_everything(self) -> Aliases:
        context = self._context
        aliases = Aliases(context.stores.graph_writer.aliases(context.namespace))
        for entity in context.staging.entities():
            leads_to = self._current(entity)
            aliases.put(entity.id, entity.name, entity.synonyms, leads_to=leads_to)
        self.names.add(aliases.of_curies())
        for surface, kind, synonym in context.staging.names():
            identity = self.names.id_of_name(surface)
            if is_own_id(identity):
                entry = self._own.setdefault(identity, NamedEntity(identity, surface))
                entry.take(surface, kind, (synonym,) if synonym else ())
        for identities in batched(sorted(self._own.keys() - self._stale), ROW_BATCH, strict=False):
            self._merge_stored(identities)
        for entry in self._own.values():
            aliases.put(entry.id, entry.name, sorted(entry.synonyms))
        return aliases

    def forgotten(self) -> Set[str]:
        """List the stale entities that nothing names any more."""
        return self._stale - self._own.keys()

    def find(self, identity: str) -> NamedEntity | None:
        """Find an entity that no list gave."""
        return self._own.get(identity)

    def _merge_stored(self, identities: Sequence[str]) -> None:
        """Join what earlier loads said of an entity: the order of loads is no matter."""
        for stored in stored_names(self._context, identities):
            self._own[stored.id].take(stored.name, stored.type, stored.synonyms)

    def _current(self, entity: RawEntity) -> str:
        """Follow `replaced_by` through this load's entities, so that old names find new terms."""
        identity = entity.id
        for _ in range(REDIRECT_DEPTH):
            if not entity.obsolete or entity.replaced_by is None:
                break
            replacement = self._context.staging.entity(entity.replaced_by)
            if replacement is None:
                break
            identity, entity = replacement.id, replacement
        return identity

    def write_listed(self) -> None:
        """Write the entities of lists and ontologies."""
        context = self._context
        with context.progress.stage("entities", context.staging.count("entity")) as advance:
            for batch in batched(context.staging.entities(), ROW_BATCH, strict=False):
                vectors = self._vectors([(entity.name, entity.embedding) for entity in batch])
                context.stores.graph_writer.put_entities(
                    [
                        EntityRecord(
                            id=entity.id,
                            namespace=context.namespace,
                            name=entity.name,
                            type=entity.type,
                            synonyms=entity.synonyms,
                            definition=entity.definition,
                            obsolete=entity.obsolete,
                            replaced_by=entity.replaced_by,
                            vector=vector,
                        )
                        for entity, vector in zip(batch, vectors, strict=True)
                    ]
                )
                context.report.entities += len(batch)
                advance(len(batch))

    def write_named(self, identities: Iterable[str]) -> None:
        """Write the entities of this load's texts that are needed now and not yet there."""
        context = self._context
        unwritten = set(identities) - self._written
        needed = sorted(identity for identity in unwritten if identity in self._own)
        for batch in batched(needed, ROW_BATCH, strict=False):
            rows = [self._own[identity] for identity in batch]
            vectors = self._vectors([(row.name, None) for row in rows])
            context.stores.graph_writer.put_entities(
                [
                    EntityRecord(
                        id=row.id,
                        namespace=context.namespace,
                        name=row.name,
                        type=row.type,
                        synonyms=tuple(sorted(row.synonyms)),
                        listed=False,
                        vector=vector,
                    )
                    for row, vector in zip(rows, vectors, strict=True)
                ]
            )
            self._written.update(batch)
            context.report.entities += len(batch)

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
            entity = self._own.get(identity)
            listed = None if entity else self._context.staging.entity(identity)
            name = entity.name if entity else listed.name if listed else None
            if name is None:
                missing.append(identity)
            labels[identity] = name or identity
        if missing:
            graph = self._context.stores.knowledge_graph
            stored = graph.names(missing, self._context.scope, READ_S)
            labels.update((identity, names[0]) for identity, names in stored.items() if names)
        return labels

    def _vectors(self, names: Sequence[tuple[str, bytes | None]]) -> list[bytes | None]:
        vectors = [own_vector for _, own_vector in names]
        missing = [i for i, own_vector in enumerate(vectors) if own_vector is None]
        if self._context.dense is not None and missing:
            made = self._context.dense.embed([names[i][0] for i in missing], None)
            for i, vector in zip(missing, made, strict=True):
                vectors[i] = vector
        return vectors


def stored_names(context: Context, identities: Sequence[str]) -> Iterator[NamedEntity]:
    """Read what the store says of some entities; unknown ones are left out."""
    graph, scope = context.stores.knowledge_graph, context.scope
    kinds = {entity.id: entity.type for entity in graph.entities(identities, scope, READ_S)}
    for identity, names in graph.names(identities, scope, READ_S).items():
        yield NamedEntity(identity, names[0], kinds.get(identity), set(names[1:]))
