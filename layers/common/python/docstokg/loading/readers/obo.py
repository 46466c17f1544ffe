"""`*.obo`: an ontology's terms as entities, its is_a and other relations as edges."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from docstokg.domain.identity import is_curie
from docstokg.loading.read.raw_input import RawEntity, RawRelation
from docstokg.loading.read.rejects import Rejected, Unreadable

_TAG = re.compile(r"([A-Za-z0-9_.-]+):\s*(.*)")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "W": " "}
_TRAILING = re.compile(r"(?<!\s)\s+(?:\{[^{}]*\}\s*)?(?:!.*)?$")

OboRecord = RawEntity | RawRelation | Rejected


@dataclass(slots=True)
class _Term:
    line: int
    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    alternatives: list[str] = field(default_factory=list)
    synonyms: list[str] = field(default_factory=list)
    definition: str | None = None
    namespace: str | None = None
    obsolete: bool = False
    replaced_by: str | None = None
    edges: list[tuple[int, str, str]] = field(default_factory=list)


def read_obo(path: Path) -> Iterator[tuple[int, OboRecord]]:  # noqa: C901 - one branch a tag of the format
    """Yield (line, entity, relation or why there is none), terms in file order.

    An `alt_id` becomes an obsolete entity replaced by its term. The type of a term is its
    `namespace`, else the file's `default-namespace`. Typedefs and instances are passed over.
    """
    term: _Term | None = None
    default: str | None = None
    in_header = True
    for number, raw in _lines(path):
        if isinstance(raw, Rejected):
            yield number, raw
            continue
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            if term is not None:
                yield from _finish(term, default)
            in_header = False
            term = _Term(number) if line == "[Term]" else None
        elif not line or line.startswith("!"):
            continue
        elif (match := _TAG.match(line)) is None:
            yield number, Rejected("neither a stanza nor `tag: value`")
        elif in_header:
            if match[1] == "default-namespace":
                default = match[2].strip()
        elif term is not None:
            try:
                _take(term, number, match[1], match[2])
            except Rejected as rejected:
                yield number, rejected
    if term is not None:
        yield from _finish(term, default)


def _lines(path: Path) -> Iterator[tuple[int, str | Rejected]]:
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    yield number, Rejected("not UTF-8")
                    continue
                yield number, Rejected("the line holds the NUL character") if "\0" in text else text
    except OSError as broken:
        raise Unreadable(path, broken) from broken


def _take(term: _Term, number: int, tag: str, value: str) -> None:  # noqa: C901, PLR0912 - one branch a tag of the format
    if tag in ("def", "synonym"):
        quoted = _QUOTED.match(value)
        if quoted is None:
            raise Rejected(f"{tag} without a quoted text")
        text = _unescape(quoted[1]).strip()
        if tag == "def":
            term.definition = text
        elif text:
            term.synonyms.append(text)
        return
    plain = _TRAILING.sub("", f"{value} ").strip()
    if tag == "id":
        term.ids.append(plain)
    elif tag == "name":
        # A name may hold `!`; only a comment after white space is none of it.
        term.names.append(_unescape(value.split(" ! ", maxsplit=1)[0]).strip())
    elif tag == "namespace":
        term.namespace = plain
    elif tag == "alt_id":
        term.alternatives.append(plain)
    elif tag == "is_obsolete":
        term.obsolete = plain == "true"
    elif tag == "replaced_by":
        term.replaced_by = plain
    elif tag == "is_a":
        term.edges.append((number, "is_a", plain))
    elif tag == "relationship":
        parts = plain.split()
        if len(parts) < 2:
            raise Rejected("relationship without a type and a target")
        term.edges.append((number, parts[0], parts[1]))


def _finish(term: _Term, default: str | None) -> Iterator[tuple[int, OboRecord]]:
    if len(term.ids) != 1 or not is_curie(term.ids[0]):
        yield term.line, Rejected("a term needs one id, a CURIE such as HP:0001250")
        return
    identity = term.ids[0]
    if len(term.names) > 1:
        yield term.line, Rejected(f"{identity} has {len(term.names)} names")
        return
    name = term.names[0] if term.names and term.names[0] else identity
    kind = term.namespace or default
    yield (
        term.line,
        RawEntity(
            id=identity,
            name=name,
            type=kind,
            synonyms=tuple(dict.fromkeys(term.synonyms)),
            definition=term.definition or None,
            obsolete=term.obsolete,
            replaced_by=term.replaced_by,
        ),
    )
    for alternative in dict.fromkeys(term.alternatives):
        if is_curie(alternative):
            yield (
                term.line,
                RawEntity(alternative, alternative, type=kind, obsolete=True, replaced_by=identity),
            )
    for number, relation, target in dict.fromkeys(term.edges):
        if is_curie(target):
            yield number, RawRelation(source=identity, type=relation, target=target)
        else:
            yield number, Rejected(f"{relation}: {target!r} is no CURIE")


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)
