"""What the graph says of the is-a and part-of relations that a draft states between names."""

from collections.abc import Sequence
from typing import Final

from docstokg.contracts.graph import SliceRequest
from docstokg.contracts.records import Scope
from docstokg.domain.graph.ontology_facts import NO_FACTS, Fact, Facts, Relation, stated
from docstokg.ports import KnowledgeGraph
from docstokg.usecases.check_consistency import countdown, reached_from

MOST_RELATIONS = 10
_MEANT: Final[tuple[Relation, ...]] = ("is_a", "part_of")
MOST_NAMED = 20


def facts_of(claims: Sequence[str], graph: KnowledgeGraph, scope: Scope, timeout_s: float) -> Facts:
    """Read what stands above the entities that claims relate; without a relation nothing is asked.

    Raises what the graph raises.
    """
    relations = [one for claim in claims if (one := stated(claim)) is not None][:MOST_RELATIONS]
    if not relations:
        return NO_FACTS
    left = countdown(timeout_s)
    keys = dict.fromkeys(key for one in relations for key in (one.subject, one.object))
    request = SliceRequest(alias_keys=tuple(keys), chunks_per_entity=0, neighbours_per_entity=0)
    aliases = graph.slice(request, scope, left()).aliases
    starts = list(dict.fromkeys(match.entity_id.upper() for match in aliases))[:MOST_NAMED]
    reached = {start: reached_from(start, graph, scope, left) for start in starts}
    keys_of: dict[str, set[str]] = {}
    for match in aliases:
        keys_of.setdefault(match.entity_id.upper(), set()).add(match.key)
    held = tuple(
        Fact(frozenset(keys_of[start]), relation, frozenset(keys_of[end]))
        for start, kinds in reached.items()
        for relation in _MEANT
        for end in sorted(kinds[relation] & keys_of.keys())
    )
    placed = {
        key for start, kinds in reached.items() if any(kinds.values()) for key in keys_of[start]
    }
    return Facts(held, frozenset(key for own in keys_of.values() for key in own), frozenset(placed))
