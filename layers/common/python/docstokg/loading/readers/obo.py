"""`*.obo`: ontology terms and relations."""

import re
from collections import defaultdict
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
    tags: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    edges: list[tuple[int, str, str]] = field(default_factory=list)

    def last(self, tag: str) -> str | None:
        return self.tags[tag][-1] if self.tags[tag] else None


def read_obo(path: Path) -> Iterator[tuple[int, OboRecord]]:  # noqa: C901 - one branch a tag of the format
    """Yield (line, entity, relation or reject) in file order; raise `Unreadable` for a bad file.

    An `alt_id` becomes an obsolete entity replaced by its term. A term's type is its `namespace`,
    else the default.
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
            if term:
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
        elif term:
            try:
                _take(term, number, match[1], match[2])
            except Rejected as rejected:
                yield number, rejected
    if term:
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
                yield (
                    number,
                    Rejected("the line contains the NUL character") if "\0" in text else text,
                )
    except OSError as broken:
        raise Unreadable(path, broken) from broken


def _take(term: _Term, number: int, tag: str, value: str) -> None:
    if tag in ("def", "synonym"):
        quoted = _QUOTED.match(value)
        if quoted is None:
            raise Rejected(f"{tag} without a quoted text")
        value = _unescape(quoted[1]).strip()
    elif tag == "name":
        # A name may contain `!`; a comment starts after white space.
        value = _unescape(value.split(" ! ", maxsplit=1)[0]).strip()
    else:
        value = _TRAILING.sub("", f"{value} ").strip()
    if tag not in ("is_a", "relationship"):
        term.tags[tag].append(value)
        return
    parts = ["is_a", value] if tag == "is_a" else value.split()
    if len(parts) < 2:
        raise Rejected("relationship without a type and a target")
    term.edges.append((number, parts[0], parts[1]))


def _finish(term: _Term, default: str | None) -> Iterator[tuple[int, OboRecord]]:
    ids, names = term.tags["id"], term.tags["name"]
    if len(ids) != 1 or not is_curie(ids[0]):
        yield term.line, Rejected("a term needs one id, a CURIE such as HP:0001250")
        return
    identity = ids[0]
    if len(names) > 1:
        yield term.line, Rejected(f"{identity} has {len(names)} names")
        return
    kind = term.last("namespace") or default
    yield (
        term.line,
        RawEntity(
            id=identity,
            name=next(filter(None, names), identity),
            type=kind,
            synonyms=tuple(dict.fromkeys(filter(None, term.tags["synonym"]))),
            definition=term.last("def") or None,
            obsolete=term.last("is_obsolete") == "true",
            replaced_by=term.last("replaced_by"),
        ),
    )
    for alternative in dict.fromkeys(term.tags["alt_id"]):
        if is_curie(alternative):
            yield (
                term.line,
                RawEntity(alternative, alternative, type=kind, obsolete=True, replaced_by=identity),
            )
    for number, relation, target in dict.fromkeys(term.edges):
        if is_curie(target):
            yield number, RawRelation(source=identity, type=relation, target=target)
        else:
            yield number, Rejected(f"{relation}: {target!r} is not a CURIE")


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _ESCAPES.get(match[1], match[1]), text)
