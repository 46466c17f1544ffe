"""Calls the handlers of a load's stages in the order the machine would, and may kill them.

A kill is what a lost process is: nothing that it did after the chosen write to the bucket or the
stores has happened.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from docstokg.ports import ObjectStore
from docstokg.wiring import Handler, Wiring
from docstokg_functions.ingest.close.handler import build as build_close
from docstokg_functions.ingest.encode.handler import build as build_encode
from docstokg_functions.ingest.names.handler import build as build_names
from docstokg_functions.ingest.read.handler import build as build_read
from docstokg_functions.ingest.resolve.handler import build as build_resolve
from docstokg_functions.ingest.write.handler import build as build_write

BUILDS: dict[str, Callable[[Wiring], Handler]] = {
    "read": build_read, "encode": build_encode, "names": build_names, "resolve": build_resolve,
    "write": build_write, "close": build_close,
}  # fmt: skip


class Killed(BaseException):
    """The process has ended."""


class Fuse:
    """Counts writes and ends the process at one of them."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.burnt = 0

    def __call__(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                self.burnt += 1
                raise Killed


class Fused:
    """Any port whose calls of the named methods may be the last of the process."""

    def __init__(self, inner: Any, fuse: Fuse, names: Sequence[str]) -> None:
        self._inner, self._fuse, self._names = inner, fuse, frozenset(names)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if name not in self._names:
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            self._fuse()
            return attribute(*args, **kwargs)

        return call


WRITES = {
    "object_store": ("put", "delete"),
    "index_writer": ("open_load", "put", "put_document", "put_facts", "delete", "close_load"),
    "graph_writer": (
        "put_chunks", "put_names", "put_entities", "put_relations", "put_mentions",
        "note_recogniser", "delete", "close_load",
    ),
    "register": ("put", "forget"),
}  # fmt: skip


class Stages:
    """A run's stages, each call a process of its own: `wiring` makes its ports anew."""

    def __init__(self, wiring: Callable[[], Wiring], run: dict[str, Any]) -> None:
        self._wiring, self.run = wiring, run
        self.fuse = Fuse()
        self.context: object = None

    def call(
        self, stage: str, items: Sequence[dict[str, Any]] = (), **fields: Any
    ) -> dict[str, Any]:
        """Run one task."""
        wiring = self._wiring()
        try:
            for name, methods in WRITES.items():
                port = getattr(wiring, name)()
                wiring.override(name, Fused(port, self.fuse, methods))
            event = {"run": self.run, "stage": stage, "items": list(items), **fields}
            return BUILDS[stage](wiring)(event, self.context)
        finally:
            wiring.close()

    def patiently(self, stage: str, items: Sequence[dict[str, Any]], kill: int | None) -> None:
        """Run one task, again after it was killed at its write number `kill`."""
        self.fuse.left = kill
        try:
            self.call(stage, items)
        except Killed:
            self.call(stage, items)
        self.fuse.left = None


def listed(objects: ObjectStore, prefix: str) -> Iterator[dict[str, Any]]:
    """List objects as the machine's reader gives them."""
    after = ""
    while page := objects.list(prefix, after):
        for entry in page:
            yield {"Key": entry.key, "Size": entry.size, "ETag": entry.etag}
        after = page[-1].key


def run_stages(
    stages: Stages,
    objects: ObjectStore,
    *,
    batch: int = 7,
    kills: int = 0,
    twice: bool = False,
    order: random.Random | None = None,
) -> int:
    """Run a load from its list to its report; how many tasks were killed on the way.

    `order`: shuffles what may run in any order, and says where tasks are killed.
    """
    chance = order or random.Random(0)
    run = stages.run

    def every(stage: str, tasks: list[list[dict[str, Any]]]) -> None:
        if order is not None:
            order.shuffle(tasks)
        for items in tasks:
            due = stages.fuse.burnt < kills and chance.random() < 0.5
            stages.patiently(stage, items, chance.randrange(12) if due else None)
            if twice:
                stages.call(stage, items)

    sources = list(listed(objects, run["prefix"]))
    every("read", [sources[i : i + batch] for i in range(0, len(sources), batch)])
    shards = [[item] for item in listed(objects, f"runs/{run['run_id']}/rows/")]
    every("encode", list(shards))
    every("names", list(shards))
    every("resolve", [[]])
    every("write", list(shards))
    every("close", [[]])
    return stages.fuse.burnt
