"""Superseded documents and series of documents."""

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from docstokg.domain.text.sentences import sentence_spans
from docstokg.domain.text.values import values
from docstokg.domain.text.words import WORD, normalise

Verb = Literal["supersedes", "amends"]
# Characters of a document in which it may declare that it replaces another one.
FIRST_PART = 1000
LONGEST_NAME = 120
_REPLACES = r"(?:replaces|supersedes|repeals|cancels|obsoletes)"
_AMENDS = r"(?:amends|corrects)"
# "This policy replaces ...", "From 1 May, it supersedes ...", "Replaces: ...", "(replaces ...)"
_DECLARED = re.compile(
    rf"(?:(?:[^.;:]{{0,60}},\s+)?(?:(?:this|the present)\s+(?:[\w-]+\s+){{1,4}}|it\s+)"
    rf"(?:[^.;:]{{0,80}}?\sand\s+)?|[^.;:]{{0,100}}\((?=[^()]*\))|\W*)"
    rf"(?:(?:hereby|also|now|fully|entirely)\s+)?"
    rf"(?:(?P<replaces>{_REPLACES})|(?P<amends>{_AMENDS}))"
    rf"(?:\s+and\s+{_REPLACES})?\W*[:\s]\W*(?P<name>\w.*)",
    re.IGNORECASE | re.DOTALL,
)
# "The leave policy of 2023 is hereby repealed.", "... is replaced by this policy."
_PASSIVE = re.compile(
    r"\s(?:is|are)\s+(?:hereby\s+(?:repealed|cancell?ed|superseded|replaced)"
    r"|(?:repealed|cancell?ed|superseded|replaced)\s+by\s+(?:this|the present)\b.*)[\s.]*\Z",
    re.IGNORECASE | re.DOTALL,
)
_LINK_TARGET = re.compile(r"\]\([^()]*\)")
_DETERMINERS = (
    "the a an our its all any both previous earlier former old existing current version versions"
    " edition editions document documents file of"
)
_BEFORE_NAME = frozenset(_DETERMINERS.split())
# A name ends where such a word follows; another word continues it.
_FOLLOWING = (
    "of dated from and with as effective published issued adopted approved which by on since in"
    " version edition entirely completely fully"
)
_AFTER_NAME = frozenset(_FOLLOWING.split())
_SKIPPED = frozenset(("of", "the", "for", "on"))
_PARTS = "except partly partially part section sections clause clauses article"
_PARTLY = frozenset(_PARTS.split())
_YEAR = re.compile(r"(?:19|20)\d\d")
_MONTHS = "january february march april may june july august september october november december"
_DATE_WORDS = frozenset(_MONTHS.split())
# Years, dates and versions that end the titles of a series: "2024", "v2.1", "2023/24", "May 2024".
_EDITION = re.compile(
    r"[\s,:(\u2013_-](?P<edition>"
    rf"(?:(?:\d{{1,2}}\.?\s+)?(?:{_MONTHS.replace(' ', '|')})\s+|q[1-4][\s-]+)?"
    r"(?:19|20)\d\d(?:[-/.]\d{1,2}){0,2}|(?:v|ver\.?|version|rev\.?|revision|release)\s?\d+(?:\.\d+)*"
    r")\)?\Z",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[^\W\d_]")
_BEFORE_EDITION = " \t\xa0,:(\u2013_-"
_NAMED_EDITION = re.compile(
    r"\b(?:(?:19|20)\d\d|v\d|(?:version|edition|release|revision)\s\d)", re.IGNORECASE
)


class Document[Key: Hashable](NamedTuple):
    """A document with the names that `supersedes` can refer to."""

    key: Key
    doc_id: str
    document_name: str
    title: str
    supersedes: tuple[str, ...]


class Links[Key: Hashable](NamedTuple):
    """The direct successors of each superseded document, and the documents of ignored cycles."""

    newer: Mapping[Key, frozenset[Key]]
    in_cycles: frozenset[Key]


class Declaration(NamedTuple):
    """A sentence with which a document replaces or amends another; `name`: text from its name."""

    verb: Verb
    name: str
    sentence: str


class Edition(NamedTuple):
    """A member of a series: title without year or version, that end, and its sort key."""

    base: str
    label: str
    order: tuple[float, ...]


def declarations(text: str) -> list[Declaration]:
    """Return the sentences of a document's first part that replace or amend a document."""
    declarations = []
    head = text[:FIRST_PART]
    lines = [
        line
        for start, end in sentence_spans(head)
        for line in re.split(r"\n(?=\W*[\w-]+\s?:)|\n\s*\n", head[start:end])
    ]
    for line in lines:
        sentence = " ".join(line.split())
        verb: Verb = "supersedes"
        if match := _DECLARED.match(sentence):
            name = match["name"]
            verb = "amends" if match["amends"] else verb
        elif (match := _PASSIVE.search(sentence)) and match.start():
            name = sentence[: match.start()]
        else:
            continue
        name = _LINK_TARGET.sub(" ", name)
        declarations.append(Declaration(verb, name, sentence))
    return declarations


def declare(
    texts: Mapping[str, str], documents: Mapping[str, Document[str]]
) -> tuple[list[tuple[str, Verb, tuple[str, ...]]], list[str]]:
    """Return what documents declare in their first part, and a note on each declaration.

    A row is (doc_id, verb, ids of the named documents). The name of a document that is not loaded
    yet is kept as it is. `texts`: by doc_id.
    """
    rows: list[tuple[str, Verb, tuple[str, ...]]] = []
    notes = []
    everything = list(documents.values())
    for doc_id, text in texts.items():
        names: dict[Verb, list[str]] = defaultdict(list)
        for verb, name, sentence in declarations(text):
            document = documents[doc_id]
            named = sorted(targets(name, document, everything))
            notes += [f'{doc_id} {verb} {other}: "{sentence}"' for other in named]
            if not named and not _fitting(name, document, everything):
                named = [name[:LONGEST_NAME]]
                notes.append(f'{doc_id} {verb} no loaded document yet: "{sentence}"')
            names[verb] += named
        rows += [(doc_id, verb, tuple(entries)) for verb, entries in names.items() if entries]
    return rows, notes


def targets[Key: Hashable](
    name: str, document: Document[Key], documents: Collection[Document[Key]]
) -> set[Key]:
    """Return the documents that a declaration of `document` names.

    By title, file name, title without year, or number in a numbered set; only if exactly one fits.
    `name`: text that begins with the name, or with a list of names.
    """
    others = [other for other in documents if other.key != document.key]
    named = set()
    for part in (name, *re.split(r",\s+(?:and\s+)?|\s+and\s+", name)):
        fits = _fitting(part, document, others)
        named |= set(fits) if len(fits) == 1 else set()
        if part == name and len(fits) > 1:
            break
    return named


def _fitting[Key: Hashable](
    name: str, document: Document[Key], others: Iterable[Document[Key]]
) -> list[Key]:
    words = [_number(word) for word in WORD.findall(normalise(name))]
    while words and words[0] in _BEFORE_NAME:
        del words[0]
    if not words or _PARTLY.intersection(words[:12]):
        return []
    if words[0].isdecimal() and not _YEAR.fullmatch(words[0]):
        # "386" in "PEP 440: Versions" is "PEP 386", in "0012-use-queues.md" "0386-...".
        numbers = {
            (*form[:at], words[0])
            for form in _forms(document)
            for at in (0, 1)
            if form[at : at + 1] and form[at].isdecimal()
        }
        return [
            other.key
            for other in others
            if any({(*form[:1],), (*form[:2],)} & numbers for form in _forms(other))
        ]
    return [other.key for other in others if any(_begins(words, form) for form in _forms(other))]


def _number(word: str) -> str:
    return word.lstrip("0") or "0" if word.isdecimal() else word


def _forms[Key: Hashable](document: Document[Key]) -> list[list[str]]:
    names = {document.title, *re.split(": | \u2013 ", document.title)[:1]}
    names |= {PurePath(name).stem for name in (document.doc_id, document.document_name) if name}
    return [[_number(word) for word in WORD.findall(normalise(name))] for name in names]


def _begins(words: Sequence[str], form: Sequence[str]) -> bool:
    """Return whether words begin with a name, then end or continue as after a name.

    Dates and numbers that the name lacks are skipped; stated years must include that of the name.
    """
    undated = [word for word in form if not _is_dated(word)]
    # "Leave policy 2023" is also named without its year, "PEP 2026" is not.
    name = [word for word in (undated if len(undated) > 1 else form) if word not in _SKIPPED]
    skipped = (word in _SKIPPED or _is_dated(word) or word.isdecimal() for word in words)
    relevant = [word for word, skip in zip(words, skipped, strict=True) if word in name or not skip]
    size = len(name)
    named_years, years = (
        {*filter(_YEAR.fullmatch, group)} for group in (words[: size + 6], {*form}.difference(name))
    )
    return (
        any(word.isalpha() and len(word) > 1 for word in name)
        and relevant[:size] == name
        and _AFTER_NAME.issuperset(relevant[size : size + 1])
        and (not years or not named_years or bool(years & named_years))
    )


def _is_dated(word: str) -> bool:
    return word in _DATE_WORDS or _YEAR.fullmatch(word) is not None


def edition(title: str) -> Edition | None:
    """Return the series and the edition of a title that ends with a year, date or version."""
    title = title.strip()
    match = _EDITION.search(title)
    if match is None or not _LETTER.search(title, 0, match.start()):
        return None
    label = match["edition"]
    return Edition(normalise(title[: match.start()].rstrip(_BEFORE_EDITION)), label, _order(label))


def edition_order(title: str) -> str:
    """Return the sort key of a title's edition as text; "" without one."""
    parsed = edition(title)
    return " ".join(map(str, parsed.order)) if parsed is not None else ""


def names_edition(question: str) -> bool:
    """Return whether a question names a year or a version."""
    return _NAMED_EDITION.search(question) is not None


def _order(label: str) -> tuple[float, ...]:
    dates = (value.low for value in values(label) if value.kind == "date")
    return max(dates, default=0.0), *map(int, re.findall(r"\d+", label))


def series[Key: Hashable](
    titles: Mapping[Key, str], headings: Mapping[Key, Collection[str]]
) -> list[list[tuple[Key, str]]]:
    """Return the series among documents: members with their edition, newest first.

    `headings`: of each document, as far as known; at least half of those of the member with fewer
    must agree with the newest member's.
    """
    members: dict[str, list[tuple[Edition, Key]]] = defaultdict(list)
    for key, title in titles.items():
        if parsed := edition(title):
            members[parsed.base].append((parsed, key))
    groups = []
    for same in members.values():
        ordered = sorted(same, key=lambda member: member[0].order, reverse=True)
        newest = set(headings.get(ordered[0][1], ()))
        fits = [
            (key, member.label) for member, key in ordered if _agree(newest, headings.get(key, ()))
        ]
        if len({label for _, label in fits}) > 1:
            groups.append(fits)
    return groups


def _agree(first: set[str], second: Collection[str]) -> bool:
    shared = first.intersection(second)
    return 2 * len(shared) >= min(len(first), len(set(second)))


def declared(metadata: Mapping[str, Any], verb: Verb = "supersedes") -> tuple[str, ...]:
    """Return the values of `supersedes` or `amends`, a string or a list, folded for comparison."""
    value = metadata.get(verb)
    entries = value if isinstance(value, list | tuple) else [value]
    return tuple(
        normalise(text)
        for entry in entries
        if isinstance(entry, str | int) and (text := str(entry))
    )


def links[Key: Hashable](documents: Iterable[Document[Key]]) -> Links[Key]:
    """Resolve each declared name among `documents`: as an id, else a file name, else a title.

    A shared title refers to all its documents; a name that is none of these, to the only document
    that it fits (`targets`). Other names are ignored, links of a cycle dropped.
    """
    document_list = list(documents)
    tables: list[dict[str, set[Key]]] = [{}, {}, {}]
    for document in document_list:
        paths = [PurePath(name) for name in (document.doc_id, document.document_name) if name]
        files = {name for path in paths for name in (str(path), path.name, path.stem)}
        forms = ({document.doc_id}, files, {document.title})
        for table, names in zip(tables, forms, strict=True):
            for name in names:
                table.setdefault(normalise(name), set()).add(document.key)
    older: dict[Key, set[Key]] = {}
    for document in document_list:
        for name in document.supersedes:
            named = next((table[name] for table in tables if name in table), None)
            named = targets(name, document, document_list) if named is None else named
            older.setdefault(document.key, set()).update(named - {document.key})
    newer: dict[Key, set[Key]] = {}
    in_cycles: set[Key] = set()
    for key, keys in older.items():
        for old in keys:
            if key in _reached(older, old):
                in_cycles |= {key, old}
            else:
                newer.setdefault(old, set()).add(key)
    return Links({old: frozenset(keys) for old, keys in newer.items()}, frozenset(in_cycles))


def _reached[Key: Hashable](older: Mapping[Key, Collection[Key]], start: Key) -> set[Key]:
    seen, waiting = {start}, [start]
    while waiting:
        new = {*older.get(waiting.pop(), ())} - seen
        seen |= new
        waiting += new
    return seen


def pairs[Key: Hashable](
    passages: Sequence[tuple[Key, str]], newer: Mapping[Key, Collection[Key]]
) -> dict[int, int]:
    """Map the index of each superseded passage to that of its replacement in `passages`, if any.

    `passages`: (document, section) in rank order. The replacement is the best ranked passage of a
    successor in the same section, else the best ranked one.
    """
    replacements = {}
    for place, (key, section) in enumerate(passages):
        successors = [at for at, (other, _) in enumerate(passages) if other in newer.get(key, ())]
        if successors:
            replacements[place] = next(
                (at for at in successors if passages[at][1] == section), successors[0]
            )
    return replacements


def placed(order: Sequence[int], replaced_by: Mapping[int, int]) -> list[int]:
    """Reorder passages so that a superseded one directly follows its replacement.

    Both take the better place. If a passage replaces several, only the best ranked follows it.
    """
    position = {passage: place for place, passage in enumerate(order)}
    older: dict[int, list[int]] = {}
    for passage in order:
        if passage in replaced_by:
            older.setdefault(replaced_by[passage], []).append(passage)

    def place(passage: int) -> int:
        return min([position[passage], *map(place, older.get(passage, ()))])

    def age(passage: int) -> int:
        return 1 + age(replaced_by[passage]) if passage in replaced_by else 0

    follower = {passage: min(replacements, key=place) for passage, replacements in older.items()}
    heads = [passage for passage in order if passage not in follower.values()]
    sequence: list[int] = []
    for passage in sorted(heads, key=lambda head: (place(head), age(head))):
        sequence.append(passage)
        while sequence[-1] in follower:
            sequence.append(follower[sequence[-1]])
    return sequence
