"""Jobs on a real index: rebuild it in place, snapshot it, and bring a snapshot back.

`python -m docstokg_local.cli.index_jobs rebuild|snapshot|snapshots|restore`, where the index is
named as for `docstokg load` and the caller has the loader's rights. A restore never overwrites: it
makes indices of its own beside those in use and swaps the aliases in one step, as a rebuild does.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from docstokg.adapters.opensearch.layout import facts_alias
from docstokg.adapters.opensearch.server import Connection, Server, index_notes
from docstokg.errors import DocsToKGError, Misconfigured, Unavailable
from docstokg.settings import Settings
from docstokg_local.cli.printing import say

Json = dict[str, Any]
REPOSITORY = "docstokg"
LIMIT_S = 120.0
JOB_S = 6 * 3600.0
POLL_S = 2.0
TAKEN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Snapshots:
    """The snapshots of one chunk index and its facts, in a repository of the server's."""

    def __init__(self, server: Server, name: str) -> None:
        """`name`: alias of the chunk index."""
        self._server, self._aliases = server, (name, facts_alias(name))
        self._name = name
        self._call = functools.partial(server.call, timeout_s=LIMIT_S)

    def register(self, repository: Mapping[str, object]) -> None:
        """Tell the server where snapshots lie: `type` and `settings` of its repository API."""
        self._call("PUT", f"/_snapshot/{REPOSITORY}", dict(repository))

    def take(self, snapshot: str) -> None:
        """Write both indices into a new snapshot and wait until it is whole."""
        if not TAKEN.fullmatch(snapshot):
            raise Misconfigured(f"{snapshot!r} is no name: small letters, digits, - and _")
        notes = index_notes(self._server, self._name, LIMIT_S)
        if notes is None or notes.get("unfinished_load") is not None:
            raise Misconfigured(f"index {self._name!r} is absent, or a load is open or unfinished")
        body = {"indices": ",".join(self._physical()), "include_global_state": False}
        self._call("PUT", f"/_snapshot/{REPOSITORY}/{snapshot}", body)
        until = time.monotonic() + JOB_S
        while (state := self._state(snapshot)) == "IN_PROGRESS":
            if time.monotonic() > until:
                raise Unavailable(f"snapshot {snapshot} is not whole after {JOB_S:.0f} s")
            time.sleep(POLL_S)
        if state != "SUCCESS":
            raise Unavailable(f"snapshot {snapshot} ended as {state}")

    def names(self) -> list[str]:
        """Every snapshot of the repository, oldest first."""
        answer = self._call("GET", f"/_snapshot/{REPOSITORY}/_all")
        return [snapshot["snapshot"] for snapshot in answer["snapshots"]]

    def restore(self, snapshot: str) -> tuple[str, ...]:
        """Make new indices of what a snapshot holds of ours, and point the aliases at them.

        The indices in use before are removed in the same step; give the names of the new ones.
        """
        held = self._call("GET", f"/_snapshot/{REPOSITORY}/{snapshot}")["snapshots"][0]["indices"]
        stamp = time.strftime("%Y%m%d%H%M%S", time.gmtime())
        swap: list[Json] = []
        fresh = []
        for alias in self._aliases:
            kind = "facts" if alias != self._name else "chunks"
            own = [name for name in held if name.startswith(f"{self._name}-{kind}-")]
            if len(own) != 1:
                raise Misconfigured(f"snapshot {snapshot} holds no one index of {alias!r}: {held}")
            # Numbered as a rebuild numbers them, so that the next one can count on.
            stem = own[0].rpartition("-")[0]
            new = f"{stem}-{stamp}"
            body = {
                "indices": own[0],
                "rename_pattern": re.escape(own[0]),
                "rename_replacement": new,
                "include_aliases": False,
                "include_global_state": False,
            }
            path = f"/_snapshot/{REPOSITORY}/{snapshot}/_restore"
            self._call("POST", path, body, {"wait_for_completion": "true"}, timeout_s=JOB_S)
            fresh.append(new)
            swap.append({"add": {"index": new, "alias": alias}})
            swap += [{"remove_index": {"index": old}} for old in self._behind(alias)]
        self._call("POST", "/_aliases", {"actions": swap})
        return tuple(fresh)

    def _state(self, snapshot: str) -> str:
        answer = self._call("GET", f"/_snapshot/{REPOSITORY}/{snapshot}")
        return str(answer["snapshots"][0]["state"])

    def _physical(self) -> list[str]:
        return [index for alias in self._aliases for index in self._behind(alias)]

    def _behind(self, alias: str) -> list[str]:
        answer = self._server.call(
            "GET", f"/{alias}/_mapping", timeout_s=LIMIT_S, absent_is_none=True
        )
        return sorted(answer)


def bucket(name: str, role_arn: str, region: str) -> Json:
    """A repository in S3, as the search service wants it registered."""
    settings = {"bucket": name, "region": region, "role_arn": role_arn, "base_path": "snapshots"}
    return {"type": "s3", "settings": settings}


def main(arguments: Sequence[str] | None = None) -> None:
    """`index_jobs JOB`: rebuild, register --bucket B --role R, snapshot N, snapshots, restore N."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    jobs = ("rebuild", "register", "snapshot", "snapshots", "restore")
    parser.add_argument("job", choices=jobs)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--bucket", default="")
    parser.add_argument("--role", default="")
    options = parser.parse_args(arguments)
    try:
        lines = _done(options, Settings.from_environment(os.environ))
    except DocsToKGError as exc:
        raise SystemExit(str(exc)) from exc
    say("\n".join(lines))


def _done(options: argparse.Namespace, settings: Settings) -> Sequence[str]:
    from docstokg.wiring import Wiring

    if options.job == "rebuild":
        wiring = Wiring(settings)
        try:
            writer = wiring.index_writer()
            rebuild = getattr(writer, "rebuild", None)
            if rebuild is None:
                raise Misconfigured("only an OpenSearch index is rebuilt; load a file store anew")
            return tuple(rebuild())
        finally:
            wiring.close()
    at: Connection = {
        "url": settings.index_url,
        "auth": settings.index_auth,
        "user": settings.index_user,
        "password": settings.index_password,
        "region": settings.aws_region,
        "ca_file": settings.index_ca_file,
    }
    server = Server(**at)
    try:
        snapshots = Snapshots(server, settings.index_name)
        match options.job:
            case "register":
                region = settings.aws_region or os.environ.get("AWS_REGION", "")
                snapshots.register(bucket(options.bucket, options.role, region))
                return (f"{options.bucket} registered",)
            case "snapshot":
                snapshots.take(options.name)
                return (f"{options.name} is whole",)
            case "restore":
                return snapshots.restore(options.name)
        return snapshots.names()
    finally:
        server.close()


if __name__ == "__main__":
    main()
