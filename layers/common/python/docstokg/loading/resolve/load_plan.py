"""Plan of a load."""

import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from docstokg.domain.graph.linking import Linker
from docstokg.loading.context import Context
from docstokg.loading.names.candidates import Labels
from docstokg.loading.names.mentions import MentionFinder
from docstokg.loading.names.naming import Entry, NamedEntity, Names
from docstokg.loading.read.staging import Staging
from docstokg.loading.resolve.entity_resolver import EntityResolver


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Entities, names and removals of a load, computed before it writes a chunk.

    `entities`: unlisted ones, by id. `affected`: those of the store that the load recomputes.
    `changed_keys`, `changed_heads`: folded names and labels that lead to other entities.
    `everything`: link every stored chunk again. `removed`: ids of documents to remove.
    """

    entities: Mapping[str, NamedEntity]
    aliases: Sequence[Entry]
    labels: Labels
    changed_keys: Set[str]
    changed_heads: Set[str]
    everything: bool
    recogniser: str
    removed: Sequence[str]
    affected: Set[str] = frozenset()

    def save(self, staging: Staging) -> None:
        """Store the plan in the staging area for later tasks, without `affected`."""
        staging.add_plan("switches", [(self.everything, self.recogniser)])
        staging.add_plan("removed", self.removed)
        staging.add_plan("alias", self.aliases)
        named = self.entities.values()
        staging.add_plan("named", ((e.id, e.name, e.type, sorted(e.synonyms)) for e in named))
        staging.add_plan("common", self.labels.common)
        staging.add_plan("key", self.changed_keys)
        staging.add_plan("heading", self.changed_heads)

    @classmethod
    def stored_in(cls, staging: Staging) -> "LoadPlan":
        """Return the plan that `save` stored."""
        rows = staging.plan
        everything, recogniser = next(rows("switches"))
        return cls(
            entities={
                identity: NamedEntity(identity, name, kind, set(synonyms))
                for identity, name, kind, synonyms in rows("named")
            },
            # There may be a million aliases: share the ids.
            aliases=[(key, sys.intern(i), preferred) for key, i, preferred in rows("alias")],
            labels=Labels(frozenset(rows("common"))),
            changed_keys=frozenset(rows("key")),
            changed_heads=frozenset(rows("heading")),
            everything=everything,
            recogniser=recogniser,
            removed=tuple(rows("removed")),
        )


@dataclass(frozen=True, slots=True)
class Linking:
    """A load with its plan, and the linker that follows from the plan."""

    context: Context
    plan: LoadPlan
    resolver: EntityResolver
    finder: MentionFinder

    @classmethod
    def of(cls, context: Context, plan: LoadPlan) -> "Linking":
        """Build the linker of a plan."""
        names = Names()
        names.add(plan.aliases)
        finder = MentionFinder(Linker(plan.aliases), names, plan.labels)
        return cls(context, plan, EntityResolver(context, plan.entities), finder)

    def within(self, context: Context) -> "Linking":
        """Return the linker for another task of the load; both share the written entities."""
        return replace(self, context=context, resolver=replace(self.resolver, context=context))
