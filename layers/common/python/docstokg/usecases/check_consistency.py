"""Check against the graph."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from docstokg.contracts.check import Consistency
from docstokg.contracts.graph import SliceRelation, SliceRequest
from docstokg.contracts.records import Scope
from docstokg.domain.answer import consistency
from docstokg.domain.deadline import Deadline
from docstokg.ports import KnowledgeGraph

# Meaning of relation types, in lower case with underscores.
_RELATIONS: Mapping[str, str] = {
    "is_a": "is_a",
    "isa": "is_a",
    "subclass_of": "is_a",
    "part_of": "part_of",
}
_KINDS = tuple(kind.replace("_", sign) for kind in _RELATIONS for sign in "_ -")
_MOST_RELATIONS = 50
_MOST_IDS = 200
_MOST_LEVELS = 16


def check_consistency(
    draft: str, graph: KnowledgeGraph, scope: Scope, deadline: Deadline
) -> Consistency:
    """Return the contradictions of a draft (its first 200 ids) to the graph, or raise `Timeout`."""
    ids = list(dict.fromkeys(mention.id for mention in consistency.mentions(draft)))[:_MOST_IDS]
    if not ids:
        return Consistency(ok=True)
    names = {key.upper(): labels for key, labels in graph.names(ids, scope, deadline).items()}
    terms = {
        entity.id.upper(): consistency.Term(
            names.get(entity.id.upper(), (entity.name,)), entity.obsolete, entity.replaced_by
        )
        for entity in graph.entities(ids, scope, deadline)
    }
    starts = dict.fromkeys(relation.subject.id for relation in consistency.stated_relations(draft))
    above = {
        start: _reached_from(start, graph, scope, deadline) for start in starts if start in terms
    }
    issues = consistency.check(draft, consistency.Ontology(terms, above))
    return Consistency(ok=not issues, issues=issues)


def relations_from(
    graph: KnowledgeGraph,
    ids: Sequence[str],
    scope: Scope,
    deadline: Deadline,
    kinds: tuple[str, ...] | None = None,
) -> tuple[SliceRelation, ...]:
    """Return visible outgoing relations of entities, the 50 heaviest of each; `kinds`: types."""
    request = SliceRequest(
        entity_ids=tuple(ids),
        relations=kinds,
        chunks_per_entity=0,
        about_per_entity=0,
        neighbours_per_entity=_MOST_RELATIONS,
    )
    folded_ids = {entity_id.casefold() for entity_id in ids}
    relations = graph.slice(request, scope, deadline).relations
    return tuple(relation for relation in relations if relation.source.casefold() in folded_ids)


def _reached_from(
    start: str, graph: KnowledgeGraph, scope: Scope, deadline: Deadline
) -> dict[str, set[str]]:
    reached: dict[str, set[str]] = {"is_a": set(), "part_of": set()}
    frontier = {("is_a", start)}
    seen = set(frontier)
    for _ in range(_MOST_LEVELS):
        if not frontier:
            break
        by_id: dict[str, list[str]] = defaultdict(list)
        for kind, identifier in frontier:
            by_id[identifier].append(kind)
        steps: set[tuple[str, str]] = set()
        for relation in relations_from(graph, sorted(by_id), scope, deadline, _KINDS):
            kind = relation.type.casefold().replace(" ", "_").replace("-", "_")
            step = _RELATIONS.get(kind)
            if step is None:
                continue
            target = relation.target.upper()
            for before in by_id.get(relation.source.upper(), ()):
                joined = "part_of" if "part_of" in (before, step) else "is_a"
                reached[joined].add(target)
                steps.add((joined, target))
        frontier = steps - seen
        seen |= frontier
    return reached
