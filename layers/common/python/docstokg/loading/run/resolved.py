"""Output of `resolve`."""

import gzip
import io
import shutil
import tempfile
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from docstokg.contracts.ingest import IngestRun
from docstokg.contracts.records import DocumentRecord
from docstokg.errors import Unavailable, WrongAnswer
from docstokg.loading.context import (
    Context,
    LoadOptions,
    LoadReport,
    NullProgress,
    Stores,
)
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.source_registry import SourceRegistry
from docstokg.loading.read.staging import Staging
from docstokg.loading.resolve.load_plan import Linking, LoadPlan
from docstokg.loading.run.erasure import erasure_marks
from docstokg.ports import ObjectStore

RESOLVED = "staging.sqlite.gz"
PIECE = 1 << 20
MAX_IDLE = 8


def put_resolved(
    run: IngestRun, objects: ObjectStore, linking: Linking, file: Path, summary: Mapping[str, Any]
) -> None:
    """Write the plan of a run to the bucket; the staged texts are dropped.

    `file`: path of the staging area. `summary`: values for the report.
    """
    context = linking.context
    staging, earlier = context.staging, context.earlier
    stored, removed = context.registry.stored, linking.plan.removed
    erased = [doc_id for doc_id in run.remove if doc_id in removed]
    documents = staging.documents_beginning(None)
    head = {
        "model": context.model,
        "dimension": context.dimension,
        "generation": context.generation,
        "encodes": context.dense is not None,
        "is_new": context.is_new,
        "sparse": context.report.sparse_model,
        "earlier": None if earlier is None else [doc for doc in documents if doc in earlier],
        "removed_sources": sorted(_paths(stored, removed)),
        "marks": [
            mark
            for doc_id in erased
            for mark in erasure_marks(run.namespace, objects, doc_id, _paths(stored, [doc_id]))
        ],
        "summary": {**summary, "chunks": staging.count("chunk")},
    }
    staging.add_plan("head", [head])
    linking.plan.save(staging)
    staging.empty()
    staging.save()
    body = io.BytesIO()
    # The file may be larger than memory.
    with gzip.GzipFile("", "wb", 6, body, mtime=0) as packed, file.open("rb") as whole:
        shutil.copyfileobj(whole, packed, PIECE)
    objects.put(run.key("resolved", RESOLVED), body.getvalue())


def _paths(stored: Mapping[str, DocumentRecord], doc_ids: Iterable[str]) -> set[str]:
    return {stored[doc_id].path if doc_id in stored else doc_id for doc_id in doc_ids}


class ResolverCache:
    """Resolved runs kept between tasks."""

    def __init__(self) -> None:
        self._idle: deque[tuple[str, ResolvedRun]] = deque(maxlen=MAX_IDLE)

    @contextmanager
    def lent(self, run: IngestRun, objects: ObjectStore) -> Iterator["ResolvedRun"]:
        """Lend the run's plan to one task at a time; raise `Unavailable` before `resolve`."""
        listed = objects.list(run.key("resolved", RESOLVED))
        version = run.run_id + "".join(entry.etag for entry in listed)
        try:
            cached_version, resolved = self._idle.pop()
        except IndexError:
            cached_version = ""
        if cached_version != version:
            resolved = ResolvedRun(run, objects)
        yield resolved
        self._idle.append((version, resolved))


class ResolvedRun:
    """A copy of a run's staging file with its plan."""

    def __init__(self, run: IngestRun, objects: ObjectStore) -> None:
        self._run = run
        self._linking: Linking | None = None
        try:
            body = objects.get(run.key("resolved", RESOLVED))
        except KeyError as missing:
            raise Unavailable("this run is not resolved yet; run `resolve` first") from missing
        with tempfile.NamedTemporaryFile(prefix="docstokg-resolve-", suffix=".sqlite") as file:
            try:
                with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
                    shutil.copyfileobj(packed, file, PIECE)
            except (OSError, EOFError, zlib.error) as broken:
                raise WrongAnswer("the resolved plan of the run is truncated") from broken
            file.flush()
            # SQLite keeps the deleted file open until the staging is closed.
            self.staging = Staging(Path(file.name))
        self.head: dict[str, Any] = next(self.staging.plan("head"))

    def close(self) -> None:
        """Close and remove the copy."""
        self.staging.close()

    def linking(self, stores: Stores) -> Linking:
        """Return the load with its plan for one task; raise `Unavailable` without its encoder."""
        context = self._context(stores)
        if self._linking is None:
            self._linking = Linking.of(context, LoadPlan.stored_in(self.staging))
        return self._linking.within(context)

    def _context(self, stores: Stores) -> Context:
        run, head, model = self._run, self.head, self.head["model"]
        dense = stores.embedder if head["encodes"] else None
        if head["encodes"] and (dense is None or dense.model != model):
            raise Unavailable(f"the run requires the encoder {model!r}, which is not installed")
        report = LoadReport(run_id=run.run_id)
        report.sparse_model, report.embedding_model = head["sparse"], model
        return Context(
            options=LoadOptions(run.namespace, replace_docs=run.replace, run_id=run.run_id),
            stores=replace(stores, embedder=dense),
            staging=self.staging,
            registry=SourceRegistry(stores.register, run.namespace, run.replace, run.run_id),
            rejects=RejectLog(),
            progress=NullProgress(),
            report=report,
            model=model,
            dimension=head["dimension"],
            dense=dense,
            sparse=None,
            earlier=None if head["earlier"] is None else frozenset(head["earlier"]),
            generation=head["generation"],
            is_new=head["is_new"],
        )
