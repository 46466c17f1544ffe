"""Load leases."""

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from docstokg.adapters.opensearch.documents import PAGE, ensure_register
from docstokg.adapters.opensearch.layout import Json
from docstokg.adapters.opensearch.server import Server, documents_there, limited, schema_checked
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, Timeout, Unavailable, cause
from docstokg.observability import Telemetry

LEASE_S = 30.0
RENEW_S = 8.0
POLL_S = 1.0
CALL_S = 10.0
# Prefix of the ids of all leases in the register; other ids are hashes.
LEASES = "load-"

LOAD, NOTES = f"{LEASES}lease", f"{LEASES}notes"
RUN = "run"
CONFLICT = 409

type Stamp = tuple[int, int]
# The last state of each lease, and since when it is unchanged.
type Seen = dict[str, tuple[Stamp, float]]


class Lease:
    """A document of the register that its holder rewrites regularly.

    Unchanged for LEASE_S, or of a dead local process, it is free. Tasks of a run share one.
    """

    def __init__(
        self, server: Server, name: str, key: str, telemetry: Telemetry | None = None
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._server, self._name, self._own = server, name, key
        self._path = f"/{name}-documents"
        self._call = limited(server, CALL_S, answered=CONFLICT)
        self._stamp: Stamp | None = None
        self._renewed = 0.0
        self._run = ""
        self._users = 0
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        self._ended = threading.Event()

    def acquire(
        self, deadline: Deadline, waiting: Callable[[int], None] | None = None, run: str = ""
    ) -> None:
        """Wait until nobody else holds it; raise `Timeout` after `deadline`.

        `waiting`: called each second with 1. `run`: tasks of the same run share the lease.
        """
        with self._taking:
            if self._stamp is None:
                self._acquire(deadline, waiting, f"{RUN} {run}" if run else "")
            self._users += 1

    def _acquire(self, deadline: Deadline, waiting: Callable[[int], None] | None, run: str) -> None:
        self._run = run
        ensure_register(self._server, self._path)
        seen: Seen = {}
        try:
            while not self._is_taken(seen):
                if deadline.is_over():
                    raise Timeout(f"a load or resize of index {self._name!r} does not end")
                time.sleep(POLL_S)
                if waiting is not None:
                    waiting(1)
        except BaseException:
            self._end(False)
            raise

    def _is_taken(self, seen: Seen) -> bool:
        while self._stamp is None:
            stamp = self._write(None)
            if stamp is None:
                version, holder = self._read_lease(self._own)
                shared = version is not None and self._run != "" and holder == self._run
                if not shared and self._is_held(version, holder, self._own, seen):
                    return False
                stamp = self._write(version)
            if stamp is not None:
                self._stamp, self._renewed = stamp, time.monotonic()
                self._ended = threading.Event()
                threading.Thread(
                    target=self._renew_regularly, args=(self._ended,), daemon=True
                ).start()
        return True

    def _is_held(self, version: Stamp | None, holder: str, name: str, seen: Seen) -> bool:
        if version is None:
            return False
        if name not in seen or seen[name][0] != version:
            seen[name] = version, time.monotonic()
        return time.monotonic() - seen[name][1] < LEASE_S and not _is_gone(holder)

    def check(self) -> None:
        """Raise `Unavailable` if the lease was held and is lost."""
        if self._stamp is None:
            return
        if time.monotonic() - self._renewed >= LEASE_S - CALL_S:
            self._renew()
        if self._renewed == 0.0:
            raise Unavailable(
                f"another load took {self._own} of index {self._name!r} over while this one was "
                "stopped or cut off: run it again"
            )

    def release(self, expires: bool = False) -> None:
        """Release the lease after its last user; if it cannot be deleted, it expires.

        `expires`: do not delete it, for tasks of the same run.
        """
        with self._taking:
            self._users = max(0, self._users - 1)
            if not self._users:
                self._end(expires)

    def _end(self, expires: bool) -> None:
        self._ended.set()
        with self._lock:
            stamp, self._stamp = self._stamp, None
            if stamp is None or self._renewed == 0.0 or expires:
                return
            try:
                if self._run:  # another task may have renewed it since
                    stamp, holder = self._read_lease(self._own)
                    if stamp is None or holder != self._run:
                        return
                self._call("DELETE", f"{self._path}/_doc/{self._own}", params=_only(stamp))
            except DocsToKGError as exc:
                self._telemetry.log("WARNING", "lease_not_returned", **cause(exc))

    def _renew_regularly(self, stop: threading.Event) -> None:
        while not stop.wait(RENEW_S):
            self._renew()

    def _renew(self) -> None:
        with self._lock:
            if self._stamp is None or self._renewed == 0.0:
                return
            try:
                stamp = self._write(self._stamp) or self._of_our_run()
            except DocsToKGError as exc:
                self._telemetry.log("WARNING", "lease_not_renewed", **cause(exc))
                # Retried soon; after LEASE_S another loader may have it.
                if time.monotonic() - self._renewed >= LEASE_S:
                    self._renewed = 0.0
                return
            self._renewed = 0.0 if stamp is None else time.monotonic()
            self._stamp = stamp or self._stamp

    def _of_our_run(self) -> Stamp | None:
        stamp, holder = self._read_lease(self._own)
        return stamp if self._run and holder == self._run else None

    def _write(self, stamp: Stamp | None) -> Stamp | None:
        holder = self._run or _process(os.getpid())
        row = {"namespace": "", "doc_id": self._own, "record": holder, "text": str(time.time())}
        path = f"{self._path}/{'_doc' if stamp else '_create'}/{self._own}"
        answer = self._call("PUT", path, row, _only(stamp) if stamp else {})
        if answer.get("status") == CONFLICT:
            return None
        return _stamp_of(answer)

    def _read_lease(self, name: str) -> tuple[Stamp | None, str]:
        path = f"{self._path}/_doc/{name}"
        answer = self._server.call(
            "GET", path, deadline=Deadline.after(CALL_S), absent_is_none=True
        )
        if not answer.get("found"):
            return None, ""
        with schema_checked("_doc"):
            return _stamp_of(answer), str(answer["_source"]["record"])


class LoadLease(Lease):
    """The lease of a load into a namespace, or ("") of the whole index against all loads."""

    def __init__(
        self,
        server: Server,
        name: str,
        namespace: str = "",
        telemetry: Telemetry | None = None,
    ) -> None:
        key = _load_key(namespace)
        super().__init__(server, name, key, telemetry)

    def _is_taken(self, seen: Seen) -> bool:
        # Both sides write their lease before they read the other's, so one of them sees it.
        if self._own == LOAD:
            return super()._is_taken(seen) and not self._are_held(self._namespaces(), seen)
        if self._are_held((LOAD,), seen) or not super()._is_taken(seen):
            return False
        if self._are_held((LOAD,), seen):
            self._end(bool(self._run))  # other tasks of the run may have it
            return False
        return True

    def _are_held(self, names: Iterable[str], seen: Seen) -> bool:
        return any(self._is_held(*self._read_lease(name), name, seen) for name in names)

    def _namespaces(self) -> list[str]:
        self._call("POST", f"{self._path}/_refresh")
        body = {"size": PAGE, "query": {"prefix": {"doc_id": f"{LOAD}-"}}, "_source": False}
        answer = self._call("POST", f"{self._path}/_search", body)
        with schema_checked("_search"):
            return [hit["_id"] for hit in answer["hits"]["hits"]]


def loading(
    server: Server, name: str, namespaces: Collection[str], deadline: Deadline
) -> tuple[str, ...]:
    """Return the namespaces whose load renewed its lease in LEASE_S, by this machine's clock.

    () if the leases cannot be read.
    """
    keys = {_load_key(namespace): namespace for namespace in namespaces}
    if not keys:
        return ()
    body = {"docs": [{"_id": key} for key in keys]}
    with suppress(DocsToKGError), schema_checked("_mget"):
        answer = server.call("POST", f"/{name}-documents/_mget", body, deadline=deadline)
        leases = {keys[row["_id"]]: row["_source"] for row in documents_there(answer)}
        oldest = time.time() - LEASE_S
        return tuple(
            namespace
            for namespace, lease in leases.items()
            if float(lease.get("text") or 0) > oldest and not _is_gone(lease["record"])
        )
    return ()


def _load_key(namespace: str) -> str:
    return f"{LOAD}-{namespace}" if namespace else LOAD


def _process(pid: int) -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        space = Path("/proc/self/ns/pid").stat().st_ino
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot} {space} {pid} {fields[19]}"


def _is_gone(holder: str) -> bool:
    mine = _process(os.getpid()).split()
    holder_words = holder.split()
    return (
        len(holder_words) == 4
        and mine[:2] == holder_words[:2]
        and _process(int(holder_words[2])) != holder
    )


def _stamp_of(answer: Json) -> Stamp:
    with schema_checked("_doc"):
        return int(answer["_seq_no"]), int(answer["_primary_term"])


def _only(stamp: Stamp) -> dict[str, str]:
    return {"if_seq_no": str(stamp[0]), "if_primary_term": str(stamp[1])}
