"""Selection of mentions."""

from collections.abc import Iterable

from docstokg.contracts.records import MentionRecord


def first_places(records: Iterable[MentionRecord]) -> dict[str, MentionRecord]:
    """Map each entity to its first mention, the longest of these; `about` if any mention is."""
    by_entity: dict[str, MentionRecord] = {}
    for record in sorted(records, key=lambda r: (r.start is None, r.start or 0, -(r.end or 0))):
        first = by_entity.setdefault(record.entity, record)
        if record.about and not first.about:
            by_entity[record.entity] = first.model_copy(update={"about": True})
    return by_entity
