"""Which entities a chunk mentions: those it was given, or those whose names the linker finds."""

from collections.abc import Iterable

from docstokg.contracts.records import MentionRecord
from docstokg.domain.linking import Linker, Match
from docstokg.loading.given import GivenChunk
from docstokg.loading.naming import Names
from docstokg.loading.reading import title_names

MOST_HOMONYMS = 8
"""A name of more entities than this says nothing about any of them."""

Places = dict[str, tuple[int, int] | None]


def mentions_of(
    chunk: GivenChunk, uuid: str, linker: Linker, names: Names, stated: Iterable[str]
) -> list[MentionRecord]:
    """List what a chunk mentions, each entity once, by id.

    It is about its title and its headings. Those and the ends of the edges it states are
    mentioned too, without a place where their names do not stand in the text.
    """
    places: Places = {}
    heads: set[str] = set()
    if chunk.mentions is None:
        places = linked(linker.find(chunk.text))
    else:
        for given in chunk.mentions:
            identity = names.resolve(given.entity)
            if given.start is not None and given.end is not None:
                places.setdefault(identity, (given.start, given.end))
            if given.about:
                heads.add(identity)
    heads.update(names.named(name) for name in title_names(chunk))
    for head in heads:
        places.setdefault(head, None)
    for end in stated:
        places.setdefault(end, None)
    return [
        MentionRecord(
            uuid=uuid,
            entity=entity,
            start=place[0] if place else None,
            end=place[1] if place else None,
            about=entity in heads,
        )
        for entity, place in sorted(places.items())
    ]


def linked(matches: Iterable[Match]) -> Places:
    """Give each entity found its first place; names inside longer names come after those.

    They count: a text about the University of Bonn is about Bonn too, for a walk over the graph.
    """
    places: Places = {}
    for match in sorted(matches, key=lambda match: match.nested):
        if len(match.entity_ids) <= MOST_HOMONYMS:
            for identity in match.entity_ids:
                places.setdefault(identity, (match.start, match.end))
    return places
