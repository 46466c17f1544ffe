"""A run's objects as source files."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from docstokg.contracts.file_types import skipped
from docstokg.contracts.ingest import IngestRun
from docstokg.loading.read.sources import NO_NAME, ODD_NAME, SourceFile, is_passed_over, kind_of
from docstokg.loading.run.document_job import posted_file
from docstokg.ports import ObjectStore


@dataclass(frozen=True, slots=True)
class RunSources:
    """The objects below a run's prefix.

    `statements`: fields of posted documents, by id. `marks`: see `erasure.erasure_mark`.
    """

    run: IngestRun
    statements: Mapping[str, Mapping[str, Any]]
    marks: Collection[str] = ()

    @classmethod
    def of(cls, run: IngestRun, objects: ObjectStore) -> "RunSources":
        """Fetch the statements of a run's posted documents, {} for none."""
        statements: Mapping[str, Any] = {}
        if run.posted:
            with suppress(KeyError):
                beside = objects.get(f"posted/{run.namespace}/{run.run_id}.json")
                statements = json.loads(beside)["documents"]
        return cls(run, statements)

    @property
    def prefix(self) -> str:
        """Return the prefix of the run's objects."""
        return self.run.prefix or self.run.sources

    @property
    def root(self) -> Path:
        """Return a pseudo folder of the namespace's sources, the same in every process."""
        return Path("/bucket", self.run.bucket, self.run.sources)

    def inner(self, key: str) -> str:
        """Return an object's relative path, which is its doc_id."""
        base = self.run.inbox if self.run.posted else self.run.sources
        return key.removeprefix(base)

    def counts(self, inner: str) -> bool:
        """Return whether an object is a file that a load considers."""
        return self.run.posted or not (inner.endswith("/") or is_passed_over(Path(inner)))

    def unread(self, inner: str) -> str:
        """Return the reason why an object is not read, "" if it is."""
        if self.run.posted:
            return "" if inner in self.statements else "sent without metadata"
        if NO_NAME.search(inner):
            return ODD_NAME
        return "" if kind_of(Path(inner)) else skipped(PurePath(PurePath(inner).name))

    def file(self, inner: str, raw: bytes = b"") -> SourceFile:
        """Return the source file of an object; raise KeyError if posted without statement."""
        if self.run.posted:
            return posted_file(inner, inner, raw, self.statements[inner], self.run.groups)
        kind = kind_of(Path(inner))
        assert kind is not None
        return SourceFile(Path(inner), kind, inner, self.root, inner)
