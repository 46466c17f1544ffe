"""Meanings of `kg_expansion.seeds`."""

from collections.abc import Sequence
from typing import NamedTuple

from docstokg.contracts.graph import DOCUMENT, TOPIC, GraphSlice
from docstokg.domain.identity import chunk_uuid, is_id
from docstokg.domain.text.folding import variant
from docstokg.domain.text.words import fold


class Seeds(NamedTuple):
    """Given seeds in all possible meanings.

    `groups`: `doc:ID` and `topic:NAME`, also for bare ids that are no entity's. `keys`: alias keys
    of names.
    """

    names: tuple[str, ...]
    entities: tuple[str, ...]
    chunks: tuple[str, ...]
    groups: tuple[str, ...]
    keys: tuple[str, ...] = ()

    def named(self, part: GraphSlice) -> set[str]:
        """Return the ids of the entities named by seeds."""
        return {alias.entity_id for alias in part.aliases if alias.key in self.keys}

    def unknown(self, part: GraphSlice) -> list[str]:
        """Return the seeds without a match in a slice."""
        if not self.names:
            return []
        ids = {entity.id.casefold() for entity in part.entities}
        ids.update(chunk.uuid for chunk in part.chunks)
        ids.update(chunk.chunk_id for chunk in part.chunks)
        for group, _ in part.members:
            ids.update((group, group.partition(":")[2]))
        keys = {alias.key for alias in part.aliases}
        return [
            seed
            for seed in self.names
            if not {seed, seed.casefold()} & ids and not set(_keys(seed)) & keys
        ]

    def shares(self, part: GraphSlice) -> dict[str, float]:
        """Return each seed chunk's share: 1 if seeded itself, plus 1/n per seeded group of n."""
        if not self.names:
            return {}
        chunks = {chunk.uuid for chunk in part.chunks}
        shares = dict.fromkeys((uuid for uuid in self.chunks if uuid in chunks), 1.0)
        sizes: dict[str, int] = {}
        for group, _ in part.members:
            sizes[group] = sizes.get(group, 0) + 1
        for group, uuid in part.members:
            if uuid in chunks:
                shares[uuid] = shares.get(uuid, 0.0) + 1 / sizes[group]
        return shares


def seeds_of(namespaces: Sequence[str], names: Sequence[str]) -> Seeds:
    """Return the possible meanings of each seed; the graph decides."""
    entities, chunks, groups = [], [], []
    keys: list[str] = []
    for seed in names:
        if seed.startswith((DOCUMENT, TOPIC)):
            groups.append(seed)
            continue
        entities.append(seed)
        # A chunk id may look like an entity id: `HP:0001250/with`.
        chunks += [seed, *(chunk_uuid(namespace, seed) for namespace in namespaces)]
        if not is_id(seed):
            groups += [DOCUMENT + seed, TOPIC + seed]
            keys += _keys(seed)
    return Seeds(tuple(names), tuple(entities), tuple(chunks), tuple(groups), tuple(keys))


def _keys(seed: str) -> tuple[str, ...]:
    return () if is_id(seed) else (fold(seed), variant(seed))
