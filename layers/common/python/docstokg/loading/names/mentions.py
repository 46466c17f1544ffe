"""Entities that a chunk mentions."""

from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from docstokg.contracts.records import MentionRecord
from docstokg.domain.graph.linking import Linker, Match
from docstokg.domain.identity import is_own_id
from docstokg.domain.text.names import addresses, is_mention
from docstokg.loading.names.candidates import Labels
from docstokg.loading.names.naming import Names
from docstokg.loading.read.raw_input import RawChunk

# Names shared by more entities are ignored.
MOST_HOMONYMS = 8

Places = dict[str, tuple[int, int] | None]


@dataclass
class MentionFinder:
    """Finds a chunk's mentions."""

    _linker: Linker
    _names: Names
    _labels: Labels

    def mentions(self, chunk: RawChunk, uuid: str, endpoints: Iterable[str]) -> list[MentionRecord]:
        """Return the mentions of a chunk, one per entity, sorted by id.

        The title and heading (which it is about) and the endpoints of its edges are included,
        without offsets if not in the text.
        """
        places: Places = {}
        heads: set[str] = set()
        if chunk.mentions is None:
            places = linked(chunk.text, self._linker.find(chunk.text))
        else:
            for entry in chunk.mentions:
                identity = self._names.resolve(entry.entity)
                if entry.start is not None and entry.end is not None:
                    places.setdefault(identity, (entry.start, entry.end))
                if entry.about:
                    heads.add(identity)
        heads.update(self._names.id_of_name(name) for name in self._labels.heads(chunk))
        for head in heads:
            places.setdefault(head, None)
        for end in endpoints:
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


def linked(text: str, matches: Iterable[Match]) -> Places:
    """Return the first place of each entity; names inside longer names rank last.

    An unlisted name must look like a name and not be part of an option, address, path or identifier
    (CMAKE_PREFIX_PATH). Names of more than MOST_HOMONYMS entities are ignored.
    """
    places: Places = {}
    inside = _inside_of(text)
    for match in sorted(matches, key=lambda match: match.nested):
        if len(match.entity_ids) > MOST_HOMONYMS:
            continue
        is_named = is_mention(text[match.start : match.end]) and not inside(match)
        for identity in match.entity_ids:
            if is_named or not is_own_id(identity):
                places.setdefault(identity, (match.start, match.end))
    return places


def _inside_of(text: str) -> Callable[[Match], bool]:
    spans = addresses(text)
    starts = [start for start, _ in spans]

    def inside(match: Match) -> bool:
        if "_" in (text[max(0, match.start - 1) : match.start], text[match.end : match.end + 1]):
            return True
        start, end = spans[at] if (at := bisect(starts, match.start) - 1) >= 0 else (0, 0)
        return match.end <= end and (match.start, match.end) != (start, end)

    return inside
