"""Entities of a load."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import batched

from docstokg.contracts.records import CALLED, EntityRecord, FactRecord
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import REDIRECT_DEPTH
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.names.naming import Aliases, Entry, NamedEntity, Names, desired_entities
from docstokg.loading.read.raw_input import RawEntity, adapter
from docstokg.loading.read.staging import name_key


@dataclass
class EntityResolver:
    """A load's entities and those already written. `entities`: unlisted ones, by id."""

    context: Context
    entities: Mapping[str, NamedEntity]
    _written: set[str] = field(default_factory=set)

    def write_listed(self) -> None:
        """Write the entities of lists and ontologies."""
        context = self.context
        with context.progress.stage("entities", context.staging.count("entity")) as advance:
            for batch in batched(context.staging.entities(), ROW_BATCH):
                self._put(batch, listed=True)
                advance(len(batch))

    def write_named(self, identities: Iterable[str]) -> None:
        """Write those of these unlisted entities that are unwritten."""
        unwritten = set(identities) - self._written
        needed = sorted(identity for identity in unwritten if identity in self.entities)
        for batch in batched(needed, ROW_BATCH):
            entities = [self.entities[identity] for identity in batch]
            recorded = self.context.staging.encodings(name_key(e.name) for e in entities)
            rows = []
            for entity in entities:
                row = RawEntity(entity.id, entity.name, entity.type, tuple(sorted(entity.synonyms)))
                encoding = recorded.get(name_key(entity.name))
                rows.append(replace(row, embedding=encoding.vector) if encoding else row)
            self._put(rows)
            self._written.update(batch)

    def write_changed(self, affected: Set[str]) -> None:
        """Write those of these stored entities whose data changed; then all count as unwritten."""
        for batch in batched(sorted(affected), ROW_BATCH):
            stored = list(stored_names(self.context, batch))
            self.write_named(e.id for e in stored if e != self.entities.get(e.id))
        self._written.clear()

    def display_names(self, identities: Iterable[str]) -> dict[str, str]:
        """Return the name of each entity, read from the graph if not loaded now, else its id."""
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
            stored = graph.names(missing, self.context.scope, Deadline.after(READ_S))
            labels.update((identity, names[0]) for identity, names in stored.items() if names)
        return labels

    def _put(self, entities: Sequence[RawEntity], listed: bool = False) -> None:
        context = self.context
        stored = self._stored_vectors([e for e in entities if e.embedding is None])
        missing = [e.name for e in entities if e.embedding is None and e.id not in stored]
        dense = context.dense if missing else None
        vectors = iter(dense.embed(missing, None) if dense else ())
        records = []
        for entity in entities:
            fields = adapter(RawEntity).dump_python(entity, exclude={"embedding", "kind"})
            vector = entity.embedding or stored.get(entity.id) or next(vectors, None) or None
            record = EntityRecord(
                **fields, namespace=context.namespace, listed=listed, vector=vector
            )
            records.append(record)
        context.stores.graph_writer.put_entities(records)
        if listed:
            context.stores.index_writer.put_facts(
                [called(entity) for entity in records if entity.synonyms]
            )
        context.report.entities += len(records)

    def _stored_vectors(self, entities: Sequence[RawEntity]) -> dict[str, bytes]:
        """Return the vectors of the entities that the graph has under the same name."""
        context, graph = self.context, self.context.stores.knowledge_graph
        if context.dense is None or context.is_new or not entities:
            return {}
        identities = [entity.id for entity in entities]
        vectors = graph.vectors(identities, context.scope, Deadline.after(READ_S))
        stored = graph.names(list(vectors), context.scope, Deadline.after(READ_S))
        return {
            entity.id: vectors[entity.id]
            for entity in entities
            if entity.id in vectors and stored.get(entity.id, ("",))[0] == entity.name
        }


def called_id(entity: str) -> str:
    """Return the id of the fact that holds an entity's names."""
    return f"{CALLED}:{entity}"


def called(entity: EntityRecord) -> FactRecord:
    """Return the names of an entity as a fact, for questions that use another name."""
    return FactRecord(
        id=called_id(entity.id),
        namespace=entity.namespace,
        text="\n".join((entity.name, *entity.synonyms)),
        source=entity.id,
        type=CALLED,
        target=entity.id,
    )


def listed_names(context: Context, stored: Iterable[Entry]) -> tuple[Aliases, Names]:
    """Return all aliases after changes of the lists, and the listed names."""
    aliases, names = Aliases(stored), Names()
    for entity in context.staging.entities():
        leads_to = _current(context, entity)
        aliases.put(entity.id, entity.name, entity.synonyms, leads_to=leads_to)
    names.add(aliases.of_curies())
    return aliases, names


def desired_by_id(
    context: Context, aliases: Aliases, names: Names, affected: Set[str]
) -> dict[str, NamedEntity]:
    """Return the unlisted entities of the staged names by id, and add their aliases.

    They are merged with stored data, except `affected` ones, whose staged names are complete.
    """
    entities = desired_entities(context.staging.names(), names)
    for identities in batched(sorted(entities.keys() - affected), ROW_BATCH):
        for stored in stored_names(context, identities):
            entities[stored.id].take(stored.name, stored.type, stored.synonyms)
    for entity in entities.values():
        aliases.put(entity.id, entity.name, sorted(entity.synonyms))
    return entities


def _current(context: Context, entity: RawEntity) -> str:
    for _ in range(REDIRECT_DEPTH):
        following = entity.replaced_by if entity.obsolete else None
        replacement = context.staging.entity(following) if following is not None else None
        if replacement is None:
            break
        entity = replacement
    return entity.id


def stored_names(context: Context, identities: Sequence[str]) -> Iterator[NamedEntity]:
    """Yield stored name, type and synonyms of entities; unknown ones are skipped."""
    graph, scope = context.stores.knowledge_graph, context.scope
    kinds = {
        entity.id: entity.type
        for entity in graph.entities(identities, scope, Deadline.after(READ_S))
    }
    for identity, names in graph.names(identities, scope, Deadline.after(READ_S)).items():
        yield NamedEntity(identity, names[0], kinds.get(identity), set(names[1:]))
