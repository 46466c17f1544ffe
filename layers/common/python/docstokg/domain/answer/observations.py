"""Facts about claims."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple

from docstokg.domain.answer.consistency import label_beside, mentions
from docstokg.domain.answer.parts import Part
from docstokg.domain.text.everyday import is_everyday
from docstokg.domain.text.folding import singular, variant
from docstokg.domain.text.values import is_stated, unstated, values
from docstokg.domain.text.wording import content_stems, ids, names
from docstokg.domain.text.words import WORD, fold, is_english, normalise

Observation = Literal[
    "number_not_in_source",
    "name_not_in_source",
    "id_not_in_source",
    "id_label_mismatch",
    "cell_mismatch",
]
MISSING = frozenset(("number_not_in_source", "name_not_in_source", "id_not_in_source"))
_JOINT = re.compile(r"[-/+]")
_PARTS = re.compile(r"[^\W\d_]{3,}")
_TOKEN = re.compile(r"[^\W\d_]\w*(?:[-/+]\w+)*")
_CAPITALISED = re.compile(r"\b[A-Z]\w*(?:\s+(?:(?:of|for|and|the|in)\s+)*[A-Z]\w*)+")
# "118 000"
_SPACED = re.compile(r"(?<![\d.,])(\d{1,3}) (?=\d{3}(?!\d))")
_UNIT = re.compile(r"[a-z]{1,2}[23]")


class Finding(NamedTuple):
    """A value of a claim that its sources lack or label otherwise."""

    code: Observation
    text: str


def observations(
    claim: str, sources: Sequence[str], rows: Sequence[Part] = ()
) -> tuple[Finding, ...]:
    """Return the numbers, names, ids and labels of a claim that no source has, each once.

    In the order of the codes; last the values of cells that belong to another row or column than
    the claim names. `sources`: the cited passages with titles. `rows`: of their tables. Names are
    compared in English only.
    """
    claim, *texts = (_SPACED.sub(r"\1", part) for part in (claim, *sources))
    text = "\n".join(texts)
    identifiers = ids(claim)
    findings = [Finding("number_not_in_source", number) for number in unstated(claim, *texts)]
    if is_english(claim):
        missing = (name for name in _names(claim, texts) if name.upper() not in identifiers)
        findings += [Finding("name_not_in_source", name) for name in missing]
    findings += [Finding("id_not_in_source", each) for each in sorted(identifiers - ids(text))]
    findings += [
        Finding("id_label_mismatch", label)
        for mention, label in _labels(claim)
        if not _is_labelled(mention, label, sources)
    ]
    findings += [Finding("cell_mismatch", value) for value in _exchanged(claim, rows)]
    return tuple(dict.fromkeys(findings))


def _exchanged(claim: str, rows: Sequence[Part]) -> Iterator[str]:
    stems = frozenset(content_stems(claim))

    @cache
    def is_named(text: str) -> bool:
        words = frozenset(content_stems(text))
        return bool(words) and words <= stems

    @cache
    def is_held(cell: str) -> bool:
        return bool(cell) and _holds(claim, cell)

    named = [row for row in rows if is_named(row.fields[0][1])]
    # By the names of all columns and of the cell's own column.
    others = defaultdict[tuple[tuple[str, ...], str], dict[str, None]](dict)
    for row in rows if named else ():
        if not is_named(row.fields[0][1]):
            columns = _columns(row)
            for column, cell in row.fields[1:]:
                if is_held(cell):
                    others[columns, column][cell] = None
    for row in named:
        cells = row.fields[1:]
        for column, value in cells:
            if not value or not is_named(column) or is_held(value):
                continue
            yield from others.get((_columns(row), column), ())
            yield from (cell for name, cell in cells if not is_named(name) and is_held(cell))


def _columns(row: Part) -> tuple[str, ...]:
    return tuple(name for name, _ in row.fields)


def _holds(claim: str, cell: str) -> bool:
    if any(map(str.isdigit, cell)):
        return not unstated(cell, claim)
    return f" {fold(cell)} " in f" {fold(claim)} "


def _names(claim: str, texts: Sequence[str]) -> Iterator[str]:
    text = "\n".join(texts)
    tokens = list(_TOKEN.finditer(claim))
    proper_names = names(claim)
    # A capitalised first word is a name if a capitalised word follows: "Nora Lind signs".
    leading = " ".join(token[0] for token in tokens[:2]).istitle() and len(tokens) > 1
    words = frozenset(WORD.findall(normalise(text)))
    common = frozenset(filter(str.islower, _PARTS.findall(claim)))
    runs = _CAPITALISED.findall(text)
    initials = " ".join("".join(filter(str.isupper, run)) for run in runs)
    for place, token in enumerate(tokens):
        name = token[0]
        folded = normalise(name)
        is_first = place == 0 and leading and not is_everyday(folded)
        if folded not in proper_names and not is_first:
            continue
        is_month = any(
            value.kind == "day" and is_stated(value, values(text))
            for value in values(name)
            for text in texts
        )
        if is_month or _UNIT.fullmatch(name):
            continue
        if name.isupper() and name in initials:  # an abbreviation of a name in the source
            continue
        parts = (part for part in _JOINT.split(folded) if part)
        if not all(part in common or _is_in(part, words) for part in parts):
            yield name


def _is_in(name: str, words: frozenset[str]) -> bool:
    forms = {name, singular(name), f"{name}s"}
    # "Norwegian" and "Norway" are different words, "German" and "Germany" one name.
    return not forms.isdisjoint(words) or (
        len(name) > 3 and any(word.startswith(name) for word in words)
    )


def _labels(text: str) -> list[tuple[str, str]]:
    return [
        (mention.id, text[place[0] : place[1]])
        for mention in mentions(text)
        if (place := label_beside(text, mention)) is not None
    ]


def _is_labelled(identifier: str, label: str, sources: Sequence[str]) -> bool:
    words = variant(label).split()
    ends = [f" {' '.join(words[at:])} " for at in range(len(words))]
    naming = [text for text in sources if identifier.casefold() in text.casefold()]
    stated = [
        variant(each)
        for text in naming
        for each in [label for other, label in _labels(text) if other == identifier] or [text]
    ]
    return not naming or any(end in f" {each} " for end in ends for each in stated)
