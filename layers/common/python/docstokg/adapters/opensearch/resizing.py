"""Shards and replicas of an index."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import batched

from docstokg.adapters.opensearch.documents import ensure_register
from docstokg.adapters.opensearch.layout import Json, Shards, facts_alias, index_settings
from docstokg.adapters.opensearch.lease import LEASES, LoadLease
from docstokg.adapters.opensearch.server import LIMIT_S, Server, index_notes, pages
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, WrongAnswer

COPIED_AT_ONCE = 200
# Until an index without an alias has answered its last question.
SETTLE_S = 10.0
PAGE = 1000
# Sort fields of each kind, for a stable order.
SORTED = {"chunks": ("uuid",), "facts": ("id",), "documents": ("namespace", "doc_id")}


class Resizing:
    """Resizing of one index: chunks, facts, register."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self._name = server, name
        self._register = f"{name}-documents"
        self._kinds = {name: "chunks", facts_alias(name): "facts", self._register: "documents"}

    def resize(self) -> tuple[str, ...]:
        """Apply the configured shards and replicas; return the names of new indices.

        An index with another number of shards is copied while it answers questions; loads wait.
        Aliases move together at the end. Raises `Misconfigured` after an unfinished load.
        """
        ensure_register(self._server, self._register)
        lease, swap, old = LoadLease(self._server, self._name), list[Json](), list[str]()
        lease.acquire(Deadline.after(LIMIT_S))
        moved, indices = False, self._server.indices
        try:
            if self._is_loading():
                raise Misconfigured(f"index {self._name!r} is absent, or a load is unfinished")
            self._remove_copies()
            shards = self._server.shards
            for alias in self._kinds:
                (index,) = self._behind(alias)
                stored = indices.get_settings(index=index)[index]["settings"]["index"]
                if int(stored["number_of_shards"]) == shards.primaries:
                    indices.put_settings(index=index, body={"index": shards.copies()})
                    continue
                swap.append({"add": {"index": self._copied(alias, index, shards), "alias": alias}})
                if index == alias:
                    swap.append({"remove_index": {"index": index}})
                else:
                    swap.append({"remove": {"index": index, "alias": alias}})
                    old.append(index)
            if swap:
                lease.check()
                indices.update_aliases(body={"actions": swap})
                moved = True
                time.sleep(SETTLE_S)
        finally:
            lease.release(expires=moved)  # the new register has no lease
        for index in old:
            indices.delete(index=index)
        return tuple(action["add"]["index"] for action in swap if "add" in action)

    def is_due(self) -> bool:
        """Return whether an index has other shards or replicas than configured."""
        shards = self._server.shards
        wanted = {"number_of_shards": shards.primaries, "number_of_replicas": shards.replicas}
        if shards.replicas is None:
            del wanted["number_of_replicas"]
        return any(
            int(settings["settings"]["index"][name]) != number
            for alias in self._kinds
            if self._behind(alias)
            for settings in self._server.indices.get_settings(index=alias).values()
            for name, number in wanted.items()
        )

    def _copied(self, alias: str, index: str, shards: Shards) -> str:
        stem = index if index == self._register else index.rpartition("-")[0]
        new = f"{stem}-{_stamp()}"
        indices = self._server.indices
        mappings = indices.get_mapping(index=index)[index]["mappings"]
        settings = index_settings(self._kinds[alias], shards)
        indices.create(index=new, body={"settings": settings, "mappings": mappings})
        indices.refresh(index=index)
        content = (
            hit
            for hit in self._hits(index, SORTED[self._kinds[alias]])
            if not hit["_id"].startswith(LEASES)
        )
        for page in batched(content, COPIED_AT_ONCE):
            rows = [row for hit in page for row in ({"index": {"_id": hit["_id"]}}, hit["_source"])]
            answer = self._server.bulk(index=new, body=rows)
            if answer["errors"]:
                raise WrongAnswer(f"a part of index {index!r} could not be copied")
        indices.refresh(index=new)
        return new

    def _remove_copies(self) -> None:
        for alias, kind in self._kinds.items():
            for index in self._behind(f"{self._name}-{kind}-*"):
                if index not in self._behind(alias):
                    self._server.indices.delete(index=index)

    def _is_loading(self) -> bool:
        notes = index_notes(self._server, self._name, Deadline.after(LIMIT_S))
        return notes is None or bool(notes["unfinished"])

    def _hits(self, index: str, fields: tuple[str, ...]) -> Iterator[Json]:
        body = {"size": PAGE, "sort": [{field: "asc"} for field in fields]}
        for page in pages(self._server, index, body):
            yield from page["hits"]["hits"]

    def _behind(self, alias: str) -> list[str]:
        return sorted(self._server.indices.get_mapping(index=alias, ignore=404))


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")
