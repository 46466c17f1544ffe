"""Resolution of names to entities."""

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from docstokg.domain.identity import entity_id, is_curie, is_id, is_own_id
from docstokg.domain.text.folding import alias_keys, variant
from docstokg.domain.text.names import better_kind, better_surface
from docstokg.domain.text.words import fold
from docstokg.loading.names.candidates import Labels, NameRow

Entry = tuple[str, str, bool]
_SEVERAL = ""


@dataclass(slots=True)
class NamedEntity:
    """An entity in no list: a title, an end of a triple, or a bare id."""

    id: str
    name: str
    type: str | None = None
    synonyms: set[str] = field(default_factory=set)

    def take(self, surface: str, kind: str | None, synonyms: Iterable[str]) -> None:
        """Merge data from another text, independent of the order."""
        self.name = better_surface(self.name, surface)
        self.type = better_kind((self.type, kind))
        self.synonyms.update(synonyms)


class Names:
    """Folded names and synonyms of every CURIE in a namespace."""

    def __init__(self) -> None:
        self._preferred: dict[str, str] = {}
        self._synonym: dict[str, str] = {}

    def add(self, entries: Iterable[Entry]) -> None:
        """Add (folded key, entity id, is its preferred name) of CURIEs; skip other ids."""
        for key, identity, preferred in entries:
            if is_curie(identity):
                table = self._preferred if preferred else self._synonym
                first = table.setdefault(key, identity)
                if first != identity:
                    table[key] = _SEVERAL

    def changed(self, other: "Names") -> set[str]:
        """Return the folded names that mean another CURIE, or none, in `other`."""
        tables = (self._preferred, self._synonym, other._preferred, other._synonym)
        keys = set().union(*tables)
        return {key for key in keys if self.curie(key) != other.curie(key)}

    def curie(self, key: str) -> str | None:
        """Return the CURIE with this folded name, else synonym; None if unknown or ambiguous."""
        return self._preferred.get(key, self._synonym.get(key)) or None

    def id_of_name(self, name: str) -> str:
        """Return the entity id of a name in a text: a CURIE, else an own id."""
        return self.curie(fold(name)) or entity_id(name)

    def resolve(self, id_or_name: str) -> str:
        """Return the entity id of an id or a name in a file."""
        return id_or_name if is_id(id_or_name) else self.id_of_name(id_or_name)


class Aliases:
    """The linker's aliases: stored and new ones."""

    def __init__(self, stored: Iterable[Entry]) -> None:
        self._stored: dict[str, list[Entry]] = {}
        self._fresh: dict[str, list[Entry]] = {}
        for entry in stored:
            self._stored.setdefault(entry[1], []).append(entry)

    def put(
        self, identity: str, name: str, synonyms: Iterable[str], leads_to: str | None = None
    ) -> None:
        """Set the aliases of an entity of this load; `leads_to`: its successor."""
        target = leads_to or identity
        self._fresh[identity] = [
            (key, target, preferred and target == identity)
            for key, preferred in alias_keys(identity, name, synonyms)
        ]

    def of_curies(self) -> Iterator[Entry]:
        """Yield the aliases of every CURIE after this load."""
        return (entry for entry in self.all() if is_curie(entry[1]))

    def all(self) -> Iterator[Entry]:
        """Yield every alias; this load's replace stored ones."""
        for identity, entries in self._stored.items():
            yield from self._fresh.get(identity, entries)
        for identity, entries in self._fresh.items():
            if identity not in self._stored:
                yield from entries

    def for_linking(self, names: Names, labels: Labels, forgotten: Set[str]) -> Iterator[Entry]:
        """Yield the aliases to link, without the entity ids in `forgotten`.

        Own entities (ids from `entity_id`) are skipped if their name now belongs to a CURIE or
        labels document parts; so are plurals of another entity's name.
        """
        key_of_own = {
            entry[1]: entry[0] for entry in self.all() if entry[2] and is_own_id(entry[1])
        }
        names_of_others = set(key_of_own.values())
        taken: set[str] = set()
        for key, identity, preferred in self.all():
            if preferred and not is_curie(identity) and (names.curie(key) or key in labels.parts):
                taken.add(identity)
        for entry in self.all():
            key, identity, preferred = entry
            if identity in taken or identity in forgotten:
                continue
            name = key_of_own.get(identity)
            plural = name is not None and key != name and key == variant(name)
            if preferred or not plural or key not in names_of_others:
                yield entry


def changed_keys(before: Iterable[Entry], after: Iterable[Entry]) -> set[str]:
    """Return the alias keys whose entities a load changes."""
    old, new = set(before), set(after)
    return {key for key, _, _ in old ^ new}


def desired_entities(rows: Iterable[NameRow], names: Names) -> dict[str, NamedEntity]:
    """Return the own entities of names, by id, without CURIEs."""
    entities: dict[str, NamedEntity] = {}
    for surface, kind, synonym in rows:
        identity = names.id_of_name(surface)
        if is_own_id(identity):
            entity = entities.setdefault(identity, NamedEntity(identity, surface))
            entity.take(surface, kind, (synonym,) if synonym else ())
    return entities
