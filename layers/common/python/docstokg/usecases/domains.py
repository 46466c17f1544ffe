"""Subject domains."""

from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Protocol

from docstokg.contracts.check import Consistency
from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import Filters, Scope
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import is_own_id
from docstokg.domain.text.words import fold
from docstokg.errors import Misconfigured
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.check_consistency import check_consistency

SUBTYPE_RELATIONS = ("is_a", "isa", "subclass_of")
MAX_SUBTYPES = 50
MAX_NOTES, MAX_NOTE_CHARS = 10, 200


class SubjectDomain(Protocol):
    """A subject domain (docs/domains.md); every method may raise errors of the graph."""

    def expand_seeds(
        self, graph: KnowledgeGraph, seeds: tuple[str, ...], scope: Scope, deadline: Deadline
    ) -> tuple[str, ...]:
        """Return the seeds followed by the related entities of the domain, without duplicates."""

    def metadata_filter(self, part: GraphSlice) -> Filters | None:
        """Return an additional filter for chunks of a routed search, or None."""

    def check_consistency(
        self, draft: str, graph: KnowledgeGraph, scope: Scope, deadline: Deadline
    ) -> Consistency:
        """Return the draft's contradictions to the domain."""

    def notes(self, part: GraphSlice) -> Sequence[str]:
        """Return notes on a question's slice for the response. A domain may omit this method."""


class OntologyDomain:
    """The built-in domain, for ontologies."""

    def expand_seeds(
        self, graph: KnowledgeGraph, seeds: tuple[str, ...], scope: Scope, deadline: Deadline
    ) -> tuple[str, ...]:
        """Return the seeds, then at most 50 direct subtypes (x is_a seed), sorted by id."""
        if not seeds:
            return ()
        request = SliceRequest(
            relations=SUBTYPE_RELATIONS, chunks_per_entity=0, neighbours_per_entity=MAX_SUBTYPES
        )
        part = graph.widen(seeds, request, scope, deadline)
        folded = {seed.casefold() for seed in seeds}
        sources = {
            relation.source for relation in part.relations if relation.target.casefold() in folded
        }
        below = sorted(source for source in sources if source.casefold() not in folded)
        return (*seeds, *below[:MAX_SUBTYPES])

    def metadata_filter(self, part: GraphSlice) -> Filters | None:
        """Return None: the documents of the slice are restrictive enough."""
        return None

    def notes(self, part: GraphSlice) -> Sequence[str]:
        """Return notes on terms that the question names only by a synonym."""
        terms = {entity.id: entity.name for entity in part.entities if not is_own_id(entity.id)}
        preferred = [alias for alias in part.aliases if alias.preferred]
        named = {alias.entity_id for alias in preferred} | {alias.key for alias in preferred}
        keys = {f" {alias.key} " for alias in part.aliases}
        return [
            f"{alias.key!r} is a synonym of {terms[alias.entity_id]} ({alias.entity_id})."
            for alias in part.aliases
            if alias.entity_id in terms.keys() - named
            and alias.key not in named
            and alias.key != fold(alias.entity_id)
            and not any(alias.key in key.strip() and f" {alias.key} " != key for key in keys)
        ]

    # Checks that ids exist and are current, labels match, and stated is-a and part-of hold.
    check_consistency = staticmethod(check_consistency)


class Together:
    """Several domains, in configured order."""

    def __init__(self, domains: Sequence[SubjectDomain]) -> None:
        self._domains = tuple(domains)

    def expand_seeds(
        self, graph: KnowledgeGraph, seeds: tuple[str, ...], scope: Scope, deadline: Deadline
    ) -> tuple[str, ...]:
        """Return the seeds, then the additions of each domain, each once."""
        seed_lists = [
            domain.expand_seeds(graph, seeds, scope, deadline) for domain in self._domains
        ]
        return tuple(
            dict.fromkeys((*seeds, *(seed for seed_list in seed_lists for seed in seed_list)))
        )

    def metadata_filter(self, part: GraphSlice) -> Filters | None:
        """Return the filters of all domains, for each key the first domain's; None without any."""
        joined: Filters = {}
        for domain in reversed(self._domains):
            joined |= domain.metadata_filter(part) or {}
        return joined or None

    def check_consistency(
        self, draft: str, graph: KnowledgeGraph, scope: Scope, deadline: Deadline
    ) -> Consistency:
        """Return the issues of all domains, by position."""
        issues = [
            issue
            for domain in self._domains
            for issue in domain.check_consistency(draft, graph, scope, deadline).issues
        ]
        issues.sort(key=lambda issue: (issue.start, issue.end))
        return Consistency(ok=not issues, issues=tuple(issues))

    def notes(self, part: GraphSlice) -> Sequence[str]:
        """Return the notes of all domains, as `notes_of`."""
        return [note for domain in self._domains for note in notes_of(domain, part)]


ONTOLOGY = OntologyDomain()
BUILT_IN: dict[str, SubjectDomain] = {"ontology": ONTOLOGY}
# Entry point group of domains; only configured ones are loaded.
GROUP = "docstokg.domains"


def notes_of(domain: SubjectDomain, part: GraphSlice) -> tuple[str, ...]:
    """Return the first 10 notes of a domain on a slice, each truncated to 200 characters."""
    notes = domain.notes(part) if hasattr(domain, "notes") else ()
    return tuple(note[:MAX_NOTE_CHARS] for note in notes[:MAX_NOTES])


def domain_of(names: Sequence[str]) -> SubjectDomain:
    """Return the named domains as one; raise `Misconfigured` if one is not installed."""
    domains = [_domain(name) for name in names]
    return domains[0] if len(domains) == 1 else Together(domains)


def _domain(name: str) -> SubjectDomain:
    if name in BUILT_IN:
        return BUILT_IN[name]
    points = tuple(entry_points(group=GROUP, name=name))
    if not points:
        raise Misconfigured(
            f"DOCSTOKG_DOMAINS names {name!r}, but no installed package has an entry point of "
            f"that name in group {GROUP}"
        )
    domain: SubjectDomain = points[0].load()
    return domain
