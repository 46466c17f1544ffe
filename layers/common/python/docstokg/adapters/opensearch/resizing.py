"""Shards and replicas of an index."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import batched

from docstokg.adapters.opensearch.documents import ensure_register
from docstokg.adapters.opensearch.layout import Json, Shards, facts_alias, index_settings
from docstokg.adapters.opensearch.lease import LEASES, LoadLease
from docstokg.adapters.opensearch.server import Server, index_notes, limited, pages
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured, WrongAnswer

LIMIT_S = 120.0
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
        self._call = limited(server, LIMIT_S)

    def resize(self) -> tuple[str, ...]:
        """Apply the configured shards and replicas; return the names of new indices.

        An index with another number of shards is copied while it answers questions; loads wait.
        Aliases move together at the end. Raises `Misconfigured` after an unfinished load.
        """
        ensure_register(self._server, f"/{self._register}")
        lease, swap, old = LoadLease(self._server, self._name), list[Json](), list[str]()
        lease.acquire(Deadline.after(LIMIT_S))
        moved = False
        try:
            if self._is_loading():
                raise Misconfigured(f"index {self._name!r} is absent, or a load is unfinished")
            self._remove_copies()
            shards = self._server.shards
            for alias in self._kinds:
                (index,) = self._behind(alias)
                stored = self._call("GET", f"/{index}/_settings")[index]["settings"]["index"]
                if int(stored["number_of_shards"]) == shards.primaries:
                    self._call("PUT", f"/{index}/_settings", {"index": shards.copies()})
                    continue
                swap.append({"add": {"index": self._copied(alias, index, shards), "alias": alias}})
                if index == alias:
                    swap.append({"remove_index": {"index": index}})
                else:
                    swap.append({"remove": {"index": index, "alias": alias}})
                    old.append(index)
            if swap:
                lease.check()
                self._call("POST", "/_aliases", {"actions": swap})
                moved = True
                time.sleep(SETTLE_S)
        finally:
            lease.release(expires=moved)  # the new register has no lease
        for index in old:
            self._call("DELETE", f"/{index}")
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
            for settings in self._call("GET", f"/{alias}/_settings").values()
            for name, number in wanted.items()
        )

    def _copied(self, alias: str, index: str, shards: Shards) -> str:
        stem = index if index == self._register else index.rpartition("-")[0]
        new = f"{stem}-{_stamp()}"
        mappings = self._call("GET", f"/{index}/_mapping")[index]["mappings"]
        settings = index_settings(self._kinds[alias], shards)
        self._call("PUT", f"/{new}", {"settings": settings, "mappings": mappings})
        self._call("POST", f"/{index}/_refresh")
        content = (
            hit
            for hit in self._hits(index, SORTED[self._kinds[alias]])
            if not hit["_id"].startswith(LEASES)
        )
        for page in batched(content, COPIED_AT_ONCE):
            lines = [
                json.dumps(line)
                for hit in page
                for line in ({"index": {"_id": hit["_id"]}}, hit["_source"])
            ]
            answer = self._call("POST", f"/{new}/_bulk", "\n".join(lines) + "\n")
            if answer["errors"]:
                raise WrongAnswer(f"a part of index {index!r} could not be copied")
        self._call("POST", f"/{new}/_refresh")
        return new

    def _remove_copies(self) -> None:
        for alias, kind in self._kinds.items():
            for index in self._behind(f"{self._name}-{kind}-*"):
                if index not in self._behind(alias):
                    self._call("DELETE", f"/{index}")

    def _is_loading(self) -> bool:
        notes = index_notes(self._server, self._name, Deadline.after(LIMIT_S))
        return notes is None or bool(notes["unfinished"])

    def _hits(self, index: str, fields: tuple[str, ...]) -> Iterator[Json]:
        body = {"size": PAGE, "sort": [{field: "asc"} for field in fields]}
        for page in pages(self._call, f"/{index}/_search", body):
            yield from page["hits"]["hits"]

    def _behind(self, alias: str) -> list[str]:
        return sorted(self._call("GET", f"/{alias}/_mapping", absent_is_none=True))


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")
