"""Selection of mentions."""

from collections.abc import Iterable

from docstokg.contracts.records import MentionRecord


def first_places(records: Iterable[MentionRecord]) -> dict[str, MentionRecord]:
    """Map each entity to its first mention, the longest of these; `about` if any mention is."""
    kept: dict[str, MentionRecord] = {}
    for one in sorted(records, key=lambda r: (r.start is None, r.start or 0, -(r.end or 0))):
        first = kept.setdefault(one.entity, one)
        if one.about and not first.about:
            kept[one.entity] = first.model_copy(update={"about": True})
    return kept
