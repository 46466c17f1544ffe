"""Consistency with an ontology."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from docstokg.contracts.check import ConsistencyIssue
from docstokg.domain.text.folding import variant
from docstokg.domain.text.words import CURIE_IN_TEXT

_LABEL_AFTER = re.compile(r"\s{0,20}[(\[\"'\u201c]([^()\[\]\"\u201c\u201d\n]{2,120})[)\]\"'\u201d]")
_RELATION = re.compile(
    r"(?P<not>\b(?:not|never|no)\s+)?\b(?:"
    r"(?P<part>(?:part|component)s?[_ ]of)"
    r"|(?P<kind>(?:kind|type|form|subtype|subclass|subset|example|child|instance)(?:s|es)?\s+of|is_a)"
    r"|(?P<bare>(?:is|are|was|were)\s+(?P<denied>not\s+)?(?:a|an|one)))\b",
    re.IGNORECASE,
)
# References, remarks in brackets, and brackets without a letter are not labels.
_NO_LABEL = re.compile(
    r"(?:see|cf|e\.?g|i\.?e|fig|table|ref|section|note|also)\b|[\W\d_]*$", re.IGNORECASE
)
_PUBLICATIONS = frozenset(
    {"PMID", "PMCID", "PMC", "DOI", "ISBN", "ISSN", "NCT", "ARXIV", "RFC", "ISO", "HTTP", "PORT"}
)
_SENTENCE_STOP = re.compile(r"[.!?;]\s|\n")
_WORDS = re.compile(r"[\w'\u2019/+-]+(?:\s+[\w'\u2019/+-]+)*\s*$")
_LONGEST_LABEL = 12
# Characters on either side of an id that are searched for its label.
_NEAR = 300


class Term(NamedTuple):
    """An ontology term: preferred name first, then synonyms."""

    names: tuple[str, ...]
    obsolete: bool = False
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True)
class Ontology:
    """The part of an ontology that a text refers to.

    `terms`: by upper-case id. `above`: per id and relation ("is_a", "part_of"), all ancestors.
    """

    terms: Mapping[str, Term]
    above: Mapping[str, Mapping[str, Collection[str]]] = field(default_factory=dict)


class Mention(NamedTuple):
    """An upper-case id at `text[start:end]`."""

    id: str
    start: int
    end: int


def mentions(text: str) -> tuple[Mention, ...]:
    """Return every CURIE in `text`, in order; may include addresses such as `host:8080`."""
    return tuple(
        Mention(f"{match[1].upper()}:{match[2]}", match.start(), match.end())
        for match in CURIE_IN_TEXT.finditer(text)
    )


class Relation(NamedTuple):
    """Relation stated between two ids of a text: is-a or part-of.

    `label`: folded words between a bare `is a` and the second id, which must be its name: `is a
    symptom seen in HP:2` states no relation.
    """

    subject: Mention
    kind: str
    target: Mention
    label: str


def stated_relations(text: str) -> tuple[Relation, ...]:
    """Return the relations between adjacent ids of a sentence, in order.

    Negated relations (`is not a`) are skipped.
    """
    relations: list[Relation] = []
    for subject, target in pairwise(mentions(text)):
        between = text[subject.end : target.start]
        matches = list(_RELATION.finditer(between))
        if not matches:
            continue
        match = next((match for match in matches if not match["bare"]), matches[-1])
        if match["not"] or match["denied"] or _SENTENCE_STOP.search(between):
            continue
        label = variant(between[match.end() :]) if match["bare"] else ""
        label = label if any(map(str.isalnum, label)) else ""
        relations.append(Relation(subject, "part_of" if match["part"] else "is_a", target, label))
    return tuple(relations)


def folded_names(term: Term) -> frozenset[str]:
    """Return a term's names, folded and without plurals and possessives."""
    return frozenset(variant(name) for name in term.names)


def check(text: str, ontology: Ontology) -> tuple[ConsistencyIssue, ...]:
    """Return the text's contradictions to the ontology, ordered by position.

    `unknown_id`: a term-like id outside the ontology. `obsolete_id`. `id_label_mismatch`: the label
    next to an id is not one of its names. `relation_not_found`: no path supports the stated
    relation.
    """
    issues: list[tuple[int, int, str, str]] = []
    for mention in mentions(text):
        place, term = (mention.start, mention.end), ontology.terms.get(mention.id)
        if term is None:
            if _is_term(text, mention):
                issues.append((*place, "unknown_id", f"{mention.id} is not in the graph"))
            continue
        if term.obsolete:
            instead = f"; use {term.replaced_by}" if term.replaced_by else ""
            issues.append((*place, "obsolete_id", f"{mention.id} is obsolete{instead}"))
        if (wrong := _wrong_label(text, mention, term)) is not None:
            label = text[wrong[0] : wrong[1]]
            message = f"'{label}' is not a name of {mention.id} ({term.names[0]})"
            issues.append((*wrong, "id_label_mismatch", message))
    for subject, kind, target, label in stated_relations(text):
        is_defined = subject.id in ontology.terms and target.id in ontology.terms
        if not is_defined or (label and label not in folded_names(ontology.terms[target.id])):
            continue
        if target.id not in ontology.above.get(subject.id, {}).get(kind, ()):
            message = f"no {kind} path from {subject.id} to {target.id}"
            issues.append((subject.start, target.end, "relation_not_found", message))
    return tuple(
        ConsistencyIssue(code=code, message=message, start=start, end=end)
        for start, end, code, message in sorted(issues)
    )


def _is_term(text: str, mention: Mention) -> bool:
    prefix = text[mention.start : mention.end].partition(":")[0]
    return prefix.upper() not in _PUBLICATIONS and not prefix.islower()


def label_beside(text: str, mention: Mention) -> tuple[int, int] | None:
    """Return the range of an id's label: bracketed after the id, or before a bracketed id.

    The latter has up to 12 words. None without a label.
    """
    after = _LABEL_AFTER.match(text, mention.end)
    if after is not None and not (CURIE_IN_TEXT.search(after[1]) or _NO_LABEL.match(after[1])):
        return after.span(1)
    near = max(0, mention.start - _NEAR)
    opened = text[near : mention.start].rstrip()
    closed = text[mention.end : mention.end + _NEAR].lstrip()
    if not opened.endswith(("(", "[")) or not closed.startswith((")", "]")):
        return None
    before = opened[:-1].rstrip()
    match = _WORDS.search(before, max(0, len(before) - 200))
    if match is None:
        return None
    start, end = near + match.start(), near + match.start() + len(match[0].rstrip())
    return _starts(text, start, end)[-_LONGEST_LABEL:][0], end


def _starts(text: str, start: int, end: int) -> list[int]:
    return [start + word.start() for word in re.finditer(r"\S+", text[start:end])]


def _wrong_label(text: str, mention: Mention, term: Term) -> tuple[int, int] | None:
    names = folded_names(term)
    place = label_beside(text, mention)
    if not names or place is None:
        return None
    start, end = place
    starts = _starts(text, start, end) if start < mention.start else [start]
    if any(variant(text[at:end]) in names for at in starts):
        return None
    return starts[-max(1, len(variant(term.names[0]).split())) :][0], end
