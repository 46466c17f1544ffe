"""Superseded documents."""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

from docstokg.domain.text.words import normalise


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


def declared(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of `supersedes`, a string or a list, folded for comparison."""
    value = metadata.get("supersedes")
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(
        normalise(text) for one in values if isinstance(one, str | int) and (text := str(one))
    )


def links[Key: Hashable](documents: Iterable[Document[Key]]) -> Links[Key]:
    """Resolve each declared name among `documents`: as an id, else a file name, else a title.

    A shared title refers to all its documents. Unknown names are ignored, links of a cycle dropped.
    """
    known = list(documents)
    tables: list[dict[str, set[Key]]] = [{}, {}, {}]
    for one in known:
        paths = [PurePath(name) for name in (one.doc_id, one.document_name) if name]
        files = {name for path in paths for name in (str(path), path.name, path.stem)}
        for table, names in zip(tables, ({one.doc_id}, files, {one.title}), strict=True):
            for name in names:
                table.setdefault(normalise(name), set()).add(one.key)
    older: dict[Key, set[Key]] = {}
    for one in known:
        for name in one.supersedes:
            found = next((table[name] for table in tables if name in table), set())
            older.setdefault(one.key, set()).update(found - {one.key})
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
    found = {}
    for place, (key, section) in enumerate(passages):
        successors = [at for at, (other, _) in enumerate(passages) if other in newer.get(key, ())]
        if successors:
            found[place] = next(
                (at for at in successors if passages[at][1] == section), successors[0]
            )
    return found


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

    follower = {passage: min(some, key=place) for passage, some in older.items()}
    heads = [passage for passage in order if passage not in follower.values()]
    made: list[int] = []
    for passage in sorted(heads, key=lambda head: (place(head), age(head))):
        made.append(passage)
        while made[-1] in follower:
            made.append(follower[made[-1]])
    return made
