"""What an ontology says of a sentence such as "A is a kind of B": that it is so, or not so."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from docstokg.contracts.response import Citation, EvidenceEdge
from docstokg.domain.text.folding import variant

Relation = Literal["is_a", "part_of"]
RELATIONS: Final[Mapping[str, Relation]] = {
    "is_a": "is_a",
    "isa": "is_a",
    "subclass_of": "is_a",
    "part_of": "part_of",
}
"""Relation types, in small letters with underscores, to what they mean."""

_LONGEST_STATED: Final = 240
_CLAUSE: Final = frozenset({"that", "which", "who", "if", "when"})
_ASIDE: Final = re.compile(r"\s*[(\[][^()\[\]]{0,60}[)\]]")
_STATED: Final = re.compile(
    r"(?:(?:an?|the|every|each|all)\s+)?(?P<subject>\S.*?)\s+(?:is|are)\s+(?P<denied>not\s+)?"
    r"(?:(?:an?|one|the)\s+)?(?:(?:more\s+)?specific\s+|common\s+|rare\s+)?"
    r"(?:(?P<kind>kind|type|form|subtype|subclass)|(?P<part>part|component))s?\s+of\s+"
    r"(?:(?:an?|the)\s+)?(?P<object>\S.*?)[\s.!]*",
    re.IGNORECASE,
)


class Stated(NamedTuple):
    """A relation that a sentence states or denies between two names, both folded as variants."""

    subject: str
    relation: Relation
    object: str
    denied: bool


class Fact(NamedTuple):
    """A relation that holds in the graph; both ends by all their names, folded as variants."""

    source: frozenset[str]
    relation: Relation
    target: frozenset[str]


class Facts(NamedTuple):
    """What the graph says of some names.

    `linked`: the names, folded as variants, that are names of entities. `placed`: those of them
    whose relations of these kinds are all known, and are not none.
    """

    held: tuple[Fact, ...] = ()
    linked: frozenset[str] = frozenset()
    placed: frozenset[str] = frozenset()

    def with_more(self, held: Sequence[Fact]) -> Facts:
        """Return these facts and some more."""
        return self._replace(held=(*self.held, *held))


NO_FACTS: Final = Facts()
Said = Literal["held", "contradicted", "relation_not_found"]


def relation_of(kind: str) -> Relation | None:
    """Return what a relation type of the graph means, None for others than is-a and part-of."""
    return RELATIONS.get(kind.casefold().replace(" ", "_").replace("-", "_"))


def stated(claim: str) -> Stated | None:
    """Read a whole sentence as one relation between two names; ids in brackets are left out."""
    plain = " ".join(claim.split())
    if len(plain) > _LONGEST_STATED:
        return None
    match = _STATED.fullmatch(_ASIDE.sub("", plain))
    if match is None:
        return None
    subject, target = variant(match["subject"]), variant(match["object"])
    if not subject or not target or subject == target:
        return None
    if _CLAUSE & {*subject.split(), *target.split()}:
        return None
    return Stated(subject, "is_a" if match["kind"] else "part_of", target, bool(match["denied"]))


def says(claim: str, facts: Facts) -> Said | None:
    """Tell whether facts hold a claim, contradict it or should hold it and do not.

    "A is a kind of B" is contradicted where B is one of A, and its denial where it holds. It is
    not found where the graph has both names and puts A somewhere else. None: facts say nothing.
    """
    one = stated(claim)
    if one is None:
        return None
    forward = backward = False
    for fact in facts.held:
        if fact.relation == one.relation:
            forward |= one.subject in fact.source and one.object in fact.target
            backward |= one.object in fact.source and one.subject in fact.target
    if one.denied:
        return "contradicted" if forward else None
    if forward:
        return "held"
    if backward:
        return "contradicted"
    is_elsewhere = one.subject in facts.placed and one.object in facts.linked
    return "relation_not_found" if is_elsewhere else None


def brought(citations: Sequence[Citation]) -> tuple[Fact, ...]:
    """Return the facts among the edges by which the graph brought citations.

    An end counts when its name is known: that of the entity matched, or of the one it is related
    to, where its path begins.
    """
    names: dict[str, set[str]] = {}
    edges: list[EvidenceEdge] = []
    for citation in citations:
        evidence = citation.kg_evidence
        if evidence is None:
            continue
        names.setdefault(evidence.entity_id, set()).add(variant(evidence.matched_entity))
        if evidence.related_to and citation.kg_path:
            names.setdefault(citation.kg_path[0], set()).add(variant(evidence.related_to))
        edges += evidence.path
    return tuple(
        Fact(frozenset(names[edge.src]), relation, frozenset(names[edge.dst]))
        for edge in edges
        if (relation := relation_of(edge.type)) and edge.src in names and edge.dst in names
    )
