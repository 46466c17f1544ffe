"""What a subject area may add to the generic graph: other seeds, a filter, checks."""

from typing import Protocol

from docstokg.contracts.check import Consistency
from docstokg.contracts.graph import GraphSlice, SliceRequest
from docstokg.contracts.records import Filters, Scope
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.check_consistency import check_consistency

SUBTYPE_RELATIONS = ("is_a", "isa", "subclass_of")
MAX_SUBTYPES = 50


class SubjectDomain(Protocol):
    """A subject area (docs/domains.md); every call raises what the graph raises."""

    def expand_seeds(
        self, graph: KnowledgeGraph, seeds: tuple[str, ...], scope: Scope, timeout_s: float
    ) -> tuple[str, ...]:
        """Give the seeds and what belongs to them, the given ones first, without repetition."""
        ...

    def metadata_filter(self, part: GraphSlice) -> Filters | None:
        """Give a filter that chunks of a routed search must meet as well, or None."""
        ...

    def check_consistency(
        self, draft: str, graph: KnowledgeGraph, scope: Scope, timeout_s: float
    ) -> Consistency:
        """Say what a draft gets wrong about the subject."""
        ...


class OntologyDomain:
    """Ontologies: a term stands for its subtypes too; ids, labels and relations must be right."""

    def expand_seeds(
        self, graph: KnowledgeGraph, seeds: tuple[str, ...], scope: Scope, timeout_s: float
    ) -> tuple[str, ...]:
        """Add the direct subtypes of each seed (x is_a seed), at most 50, by id."""
        if not seeds:
            return ()
        asked = SliceRequest(
            relations=SUBTYPE_RELATIONS, chunks_per_entity=0, neighbours_per_entity=MAX_SUBTYPES
        )
        part = graph.widen(seeds, asked, scope, timeout_s)
        given = {seed.casefold() for seed in seeds}
        below = sorted(
            {
                relation.source
                for relation in part.relations
                if relation.target.casefold() in given and relation.source.casefold() not in given
            }
        )
        return (*seeds, *below[:MAX_SUBTYPES])

    def metadata_filter(self, part: GraphSlice) -> Filters | None:
        """Add nothing: the documents of the slice are restriction enough."""
        return None

    def check_consistency(
        self, draft: str, graph: KnowledgeGraph, scope: Scope, timeout_s: float
    ) -> Consistency:
        """Check that ids exist and are current, labels are theirs, stated is-a and part-of hold."""
        return check_consistency(draft, graph, scope, timeout_s)


ONTOLOGY = OntologyDomain()
