"""OpenSearch snapshots."""

import calendar
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import batched

from docstokg.adapters.opensearch.documents import ensure_register
from docstokg.adapters.opensearch.layout import Json, Shards, facts_alias, index_settings
from docstokg.adapters.opensearch.lease import LEASES, LoadLease
from docstokg.adapters.opensearch.server import Server, index_notes, pages
from docstokg.contracts.ingest import DAILY, REPOSITORY
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Misconfigured, Unavailable, WrongAnswer

LIMIT_S = 120.0
JOB_S = 6 * 3600.0
POLL_S = 2.0
COPIED_AT_ONCE = 200
# Until an index without an alias has answered its last question.
SETTLE_S = 10.0
PAGE = 1000
TAKEN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
KEPT_DAYS = 14
# Sort fields of each kind, for a stable order.
SORTED = {"chunks": ("uuid",), "facts": ("id",), "documents": ("namespace", "doc_id")}
# Namespace and id.
type Document = tuple[str, str]


class Snapshots:
    """Snapshots and copies of one index: chunks, facts, register."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self._name = server, name
        self._register = f"{name}-documents"
        self._kinds = {name: "chunks", facts_alias(name): "facts", self._register: "documents"}

    def register(self, repository: Mapping[str, object]) -> None:
        """Register the repository `docstokg`, or replace it: `type` and `settings` of the API."""
        self._server.snapshot.create_repository(repository=REPOSITORY, body=dict(repository))

    def take(self, snapshot: str) -> None:
        """Write all indices into a new snapshot and wait.

        Raise `Misconfigured` for an invalid name, without an index or during a load, `WrongAnswer`
        for a name in use, `Unavailable` if the snapshot fails.
        """
        self._begin(snapshot)
        self._complete(snapshot)

    def keep_daily(self, now: float, days: int = KEPT_DAYS) -> Json:
        """Start today's snapshot if missing; keep the last `days` daily ones that are complete.

        Returns `begun` (name or ""), `removed` (names), `failed` (names of snapshots that ended
        otherwise than SUCCESS, that could not begin or not be deleted; they are deleted and taken
        again) and `age_days` of the newest complete one (`days` without). Nothing starts while a
        load or a snapshot is open. `now`: epoch seconds.
        """
        states = {name: state for name, state in self._states().items() if name.startswith(DAILY)}
        today = f"{DAILY}{time.strftime('%Y-%m-%d', time.gmtime(now))}"
        complete = sorted(name for name, state in states.items() if state == "SUCCESS")
        failed = sorted(states.keys() - set(complete) - _running(states))
        removed, refused = list[str](), set(failed)
        for name in failed + complete[:-days]:
            try:
                self._server.snapshot.delete(repository=REPOSITORY, snapshot=name)
                removed.append(name)
            except DocsToKGError:
                refused.add(name)
        blocked = _running(states) or (states.keys() & {today}) - set(removed)
        begins = not blocked and not self._is_loading()
        if begins:
            try:
                self._begin(today)
            except DocsToKGError:
                begins, refused = False, refused | {today}
        return {
            "begun": today if begins else "",
            "removed": removed,
            "failed": sorted(refused),
            "age_days": (_day(today) - _day(complete[-1])) / 86_400 if complete else days,
        }

    def names(self) -> list[str]:
        """Return every snapshot of the repository, oldest first."""
        return list(self._states())

    def restore(self, snapshot: str) -> tuple[str, ...]:
        """Restore a snapshot into new indices, move the aliases to them, and remove the old ones.

        Documents missing in the current register are deleted first. Returns the new names. Raises
        `Timeout` while a load or resize runs, else errors as `bring_back`.
        """
        with self._exclusive() as move:
            fresh = self.bring_back(snapshot, _stamp())
            swap: list[Json] = []
            for alias, new in fresh.items():
                swap.append({"add": {"index": new, "alias": alias}})
                swap += [{"remove_index": {"index": old}} for old in self._behind(alias)]
            move(swap)
        return tuple(fresh.values())

    @contextmanager
    def _exclusive(self) -> Iterator[Callable[[Sequence[Json]], None]]:
        """Without a register nothing is held: creating one would make a restore delete all."""
        lease, moved = LoadLease(self._server, self._name), False

        def move(actions: Sequence[Json]) -> None:
            nonlocal moved
            lease.check()
            self._server.indices.update_aliases(body={"actions": list(actions)})
            moved = True  # and the new register has no lease

        if self._behind(self._register):
            lease.acquire(Deadline.after(LIMIT_S))
        try:
            yield move
        finally:
            lease.release(expires=moved)

    def bring_back(self, snapshot: str, stamp: str) -> dict[str, str]:
        """Restore a snapshot into new indices whose names end with `stamp`; return them by alias.

        Aliases do not move. Documents missing in the current register are deleted. Waits for an
        unfinished snapshot; raises `Unavailable` for a failed one, `Misconfigured` for another
        index's.
        """
        indices = self._complete(snapshot)["indices"]
        fresh = {}
        for alias, kind in self._kinds.items():
            matching = [name for name in indices if name.startswith(f"{self._name}-{kind}")]
            if len(matching) != 1:
                raise Misconfigured(
                    f"snapshot {snapshot} holds no one index of {alias!r}: {indices}"
                )
            stem = matching[0] if matching[0] == self._register else matching[0].rpartition("-")[0]
            body = {
                "indices": matching[0],
                "rename_pattern": re.escape(matching[0]),
                "rename_replacement": f"{stem}-{stamp}",
                "include_aliases": False,
                "include_global_state": False,
            }
            self._server.snapshot.restore(
                repository=REPOSITORY,
                snapshot=snapshot,
                body=body,
                wait_for_completion=True,
                request_timeout=JOB_S,
            )
            fresh[alias] = f"{stem}-{stamp}"
        if self._behind(self._register):
            documents = set(self._documents(self._register))
            for namespace, doc_id in self._documents(fresh[self._register]):
                if (namespace, doc_id) not in documents:
                    both = [{"term": {"namespace": namespace}}, {"term": {"doc_id": doc_id}}]
                    query = {"query": {"bool": {"filter": both}}}
                    self._server.delete_by_query(
                        index=list(fresh.values()), body=query, refresh=True
                    )
        return fresh

    def resize(self) -> tuple[str, ...]:
        """Apply the configured shards and replicas; return the names of new indices.

        An index with another number of shards is copied while it answers questions; loads wait.
        Aliases move together at the end. Raises `Misconfigured` after an unfinished load.
        """
        ensure_register(self._server, self._register)
        with self._exclusive() as move:
            if self._is_loading():
                raise Misconfigured(f"index {self._name!r} is absent, or a load is unfinished")
            self._remove_copies()
            shards, swap, old = self._server.shards, list[Json](), list[str]()
            indices = self._server.indices
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
                move(swap)
                time.sleep(SETTLE_S)
        for index in old:
            self._server.indices.delete(index=index)
        return tuple(action["add"]["index"] for action in swap if "add" in action)

    def resize_is_due(self) -> bool:
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
            for hit in self._hits(index, SORTED[self._kinds[alias]], source=True)
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
                if index not in self._behind(alias) and "-drill" not in index:
                    self._server.indices.delete(index=index)

    def drill(self, snapshot: str) -> tuple[str, str]:
        """Restore a snapshot next to the current indices and remove the copy.

        Return current and restored digest; raise errors as `bring_back`.
        """
        fresh = self.bring_back(snapshot, f"drill{_stamp()}")
        try:
            return self.digest({alias: alias for alias in self._kinds}), self.digest(fresh)
        finally:
            for index in fresh.values():
                self._server.indices.delete(index=index)

    def digest(self, indices: Mapping[str, str]) -> str:
        """Return a SHA-256 hex digest of ids and sources in order; `indices`: index by alias."""
        hasher = hashlib.sha256()
        for alias, index in indices.items():
            for hit in self._hits(index, SORTED[self._kinds[alias]], source=True):
                if not hit["_id"].startswith(LEASES):  # they are not content
                    line = json.dumps([hit["_id"], hit["_source"]], sort_keys=True)
                    hasher.update(line.encode())
        return hasher.hexdigest()

    def _begin(self, snapshot: str) -> None:
        if not TAKEN.fullmatch(snapshot):
            raise Misconfigured(f"{snapshot!r} is no name: small letters, digits, - and _")
        if self._is_loading():
            raise Misconfigured(f"index {self._name!r} is absent, or a load is open or unfinished")
        indices = ",".join(index for alias in self._kinds for index in self._behind(alias))
        body = {"indices": indices, "include_global_state": False}
        self._server.snapshot.create(repository=REPOSITORY, snapshot=snapshot, body=body)

    def _states(self) -> dict[str, str]:
        answer = self._server.snapshot.get(repository=REPOSITORY, snapshot="_all")
        return {snapshot["snapshot"]: snapshot["state"] for snapshot in answer["snapshots"]}

    def _is_loading(self) -> bool:
        notes = index_notes(self._server, self._name, Deadline.after(LIMIT_S))
        return notes is None or bool(notes["unfinished"])

    def _documents(self, register: str) -> Iterator[Document]:
        for hit in self._hits(register, SORTED["documents"], source=False):
            yield hit["sort"][0], hit["sort"][1]

    def _hits(self, index: str, fields: tuple[str, ...], *, source: bool) -> Iterator[Json]:
        body = {"size": PAGE, "_source": source, "sort": [{field: "asc"} for field in fields]}
        for page in pages(self._server, index, body):
            yield from page["hits"]["hits"]

    def _complete(self, snapshot: str) -> Json:
        deadline = Deadline.after(JOB_S)
        while not deadline.is_over():
            answer = self._server.snapshot.get(repository=REPOSITORY, snapshot=snapshot)
            info: Json = answer["snapshots"][0]
            if info["state"] == "SUCCESS":
                return info
            if info["state"] != "IN_PROGRESS":
                raise Unavailable(f"snapshot {snapshot} ended as {info['state']}")
            time.sleep(POLL_S)
        raise Unavailable(f"snapshot {snapshot} is not complete after {JOB_S:.0f} s")

    def _behind(self, alias: str) -> list[str]:
        return sorted(self._server.indices.get_mapping(index=alias, ignore=404))


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%d%H%M%S%f")


def _running(states: Mapping[str, str]) -> set[str]:
    return {name for name, state in states.items() if state == "IN_PROGRESS"}


def _day(name: str) -> float:
    return calendar.timegm(time.strptime(name.removeprefix(DAILY), "%Y-%m-%d"))
