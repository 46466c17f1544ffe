"""Rows and statements of the same form, and comparisons."""

import re
from collections.abc import Sequence
from itertools import pairwise

from docstokg.contracts.state import Block
from docstokg.domain.answer.kinds import asked_kinds
from docstokg.domain.answer.parts import Part
from docstokg.domain.answer.reader_features import Candidate, alike, asked_values, stems
from docstokg.domain.text.names import capitalised_names
from docstokg.domain.text.snippets import coverage, question_stems
from docstokg.domain.text.values import values
from docstokg.domain.text.words import WORD, fold, normalise

# Maximum number of rows, and of statements of the same form, in an answer.
MOST_ROWS, MOST_STATEMENTS = 12, 6
_COMPARING = re.compile(
    r"\b(?:than|compare\w*|comparison|difference|differ|both|versus|vs|common|or|als|verglichen"
    r"|unterschied|oder|beide|que|ou|o|di|che|dan|of)\b",
    re.IGNORECASE,
)
# "compare A and B", "the difference between A and B"; A and B do not begin with a digit.
_COMPARED = re.compile(
    r"\b(?:compar\w*|vergleich\w*|confront\w*|vergelijk\w*|between|zwischen|entre|tra|fra|tussen)"
    r"\s+(?:the\s+)?(?P<first>[^\W\d][^?.,]{1,60}?)"
    r"\s+(?:and|with|to|und|mit|et|avec|y|con|e|com|en|met)"
    r"\s+(?:the\s+)?(?P<second>[^\W\d][^?.,]{1,60}?)[\s?.]*\Z",
    re.IGNORECASE,
)
_JOINED = re.compile(
    r"\b(?:and|or|than|versus|vs\.?|with|und|oder|als|mit|et|ou|que|avec|y|o|con|e|di|che|en|dan"
    r"|met)\s+(?:the\s+)?\Z",
    re.IGNORECASE,
)
# Share of a name's stems that a passage about it has.
_NAMED = 0.5


def missing_names(query: str, passages: Sequence[Block]) -> list[str]:
    """Return the names in a comparison or conjunction that no passage has; [] if none has any."""
    match = _COMPARED.search(query)
    names = set(match.groups() if match else ())
    for first, second in pairwise(() if match else capitalised_names(query)):
        if _JOINED.search(query.partition(first)[2].partition(second)[0]):
            names |= {first, second}
    if not names:
        return []
    stems_of = {name: question_stems(name) for name in sorted(names)}
    common = frozenset[str].intersection(*stems_of.values())
    texts = [
        " ".join((block.subject, block.text, *(other.in_question for other in block.other_names)))
        for block in passages
    ]
    missing = [
        name
        for name, words in stems_of.items()
        if all(coverage(words - common or words, text) < _NAMED for text in texts)
    ]
    return missing if len(missing) < len(names) else []


def asked_rows(query: str, pool: Sequence[Candidate], best: int) -> tuple[tuple[int, ...], int]:
    """Return the rows of the best row's table that meet most conditions, and the number of others.

    ((), 0) if the best candidate is no row or the question does not ask for several.
    A condition is a word or value of the question that a cell of the table holds and that is in
    neither the title nor the table's name. Of rows that meet as many, those with the most words of
    its names.
    """
    if "many" not in asked_kinds(query) or not pool[best].unit.fields:
        return (), 0
    columns = _columns(pool[best])
    name = pool[best].block.document_name
    table = [
        place
        for place, candidate in enumerate(pool)
        if candidate.unit.kind == "row"
        and candidate.block.document_name == name
        and _columns(candidate) == columns
    ]
    titles = stems(f"{pool[best].block.subject} {name} {' '.join(columns[:1])}")
    question = frozenset(stems(query)).difference(titles)
    numbers = [number for number in asked_values(query) if not number.words.issubset(titles)]
    names = {word for name in capitalised_names(query) for word in stems(name)}
    conditions: dict[int, tuple[float, int]] = {}
    for place in table:
        fields = pool[place].unit.fields
        text = " ".join(value for _, value in fields)
        words = question & frozenset(stems(text))
        row_values = values(pool[place].unit.text)
        count = len(words) + sum(
            number.share(row_values) for number in numbers if not number.words <= words
        )
        conditions[place] = (count, len(words & names))
    highest = max(conditions.values())
    places = tuple(place for place in table if conditions[place] == highest)
    return places, len(table) - len(places)


def row_in_words(query: str, row: Part) -> str:
    """Return "Cow Berta; Milk of Berta is 31 l", first the cells that share a word with a question.

    The row has `fields`. The reader, which knows sentences, reads the beginning of a long row.
    """
    question = frozenset(stems(query))
    (column, key), *others = row.fields
    others.sort(key=lambda field: question.isdisjoint(stems(" ".join(field))))
    return "; ".join(
        (f"{column} {key}", *(f"{name} of {key} is {value}" for name, value in others))
    )


def _columns(candidate: Candidate) -> tuple[str, ...]:
    return tuple(name for name, _ in candidate.unit.fields)


def parallel(query: str, pool: Sequence[Candidate], best: int, *, every: bool) -> tuple[int, ...]:
    """Return candidates that state the same of the other names of a comparison; else ().

    `every`: return all of the same form, such as for "which is the oldest".
    """
    names = [fold(name) for name in capitalised_names(query)]
    chosen = f" {fold(pool[best].unit.text)} "
    others = [name for name in dict.fromkeys(names) if f" {name} " not in chosen]
    is_comparison = len(names) > len(others) > 0 and _COMPARING.search(query) is not None
    if pool[best].unit.kind in ("code", "list") or not (every or is_comparison):
        return ()
    form = _form(pool[best])
    same = [
        place
        for place, candidate in enumerate(pool)
        if place == best or alike(form, _form(candidate))
    ]
    if every and not is_comparison:
        numbers = asked_values(query)
        if len(names) > len(others) or any(number.share(values(chosen)) for number in numbers):
            return ()
        named = _headed(pool[best], names)
        same = [place for place in same if named <= _headed(pool[place], names)]
        return tuple(same[:MOST_STATEMENTS]) if len(same) > 1 else ()
    places = [best]
    for name in others:
        about = (p for p in same if f" {name} " in f" {fold(pool[p].unit.text)} ")
        if (place := next(about, None)) is not None and place not in places:
            places.append(place)
    return tuple(sorted(places)) if len(places) > 1 else ()


def _headed(candidate: Candidate, names: Sequence[str]) -> set[str]:
    """Return the folded names that a unit's title or heading has."""
    heads = f" {fold(f'{candidate.block.subject} {candidate.unit.heading}')} "
    return {name for name in names if f" {name} " in heads}


def _form(candidate: Candidate) -> frozenset[str]:
    """Return the stems of a unit without names and numbers."""
    text = candidate.unit.text
    names = {word for name in capitalised_names(text) for word in stems(name)}
    first = WORD.search(text)
    lead = {normalise(first[0])} if first is not None and first[0][:1].isupper() else set()
    words = candidate.words - names - lead
    return frozenset(word for word in words if not any(map(str.isdigit, word)))
