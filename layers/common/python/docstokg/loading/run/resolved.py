"""Output of `resolve`."""

import gzip
import io
import shutil
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from docstokg.contracts.ingest import IngestRun
from docstokg.domain.graph.linking import Linker
from docstokg.errors import Unavailable, WrongAnswer
from docstokg.loading.context import Context, Encoding, LoadReport, NullProgress, Stores
from docstokg.loading.names.candidates import Labels
from docstokg.loading.names.mentions import MentionFinder
from docstokg.loading.names.naming import NamedEntity, Names
from docstokg.loading.pipeline import LoadPlan
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.staging import Staging
from docstokg.loading.resolve.entity_resolver import EntityResolver
from docstokg.ports import ObjectStore

RESOLVED = "staging.sqlite.gz"
PIECE = 1 << 20
MOST_IDLE = 8


def put_resolved(
    run: IngestRun,
    objects: ObjectStore,
    context: Context,
    load_plan: LoadPlan,
    file: Path,
    summary: Mapping[str, Any],
) -> None:
    """Write the plan of a run to the bucket; the staged texts are dropped.

    `file`: path of the staging area. `summary`: values for the report.
    """
    staging, earlier = context.staging, context.earlier
    documents = staging.documents_beginning(None)
    head = {
        "context": {
            "model": context.model,
            "dimension": context.dimension,
            "replace_docs": context.replace_docs,
            "generation": context.generation,
        },
        "dense": context.dense is not None,
        "sparse": context.report.sparse_model,
        "earlier": None if earlier is None else [doc for doc in documents if doc in earlier],
        "plan": {
            "everything": load_plan.everything,
            "recogniser": load_plan.recogniser,
            "gone": list(load_plan.gone),
        },
        "summary": {**summary, "chunks": staging.count("chunk")},
    }
    named = load_plan.resolver.entities.values()
    staging.add_plan("head", [head])
    staging.add_plan("alias", load_plan.aliases)
    staging.add_plan("named", ((e.id, e.name, e.type, sorted(e.synonyms)) for e in named))
    staging.add_plan("common", load_plan.labels.common)
    staging.add_plan("key", load_plan.changed_keys)
    staging.add_plan("heading", load_plan.changed_heads)
    staging.empty()
    staging.save()
    body = io.BytesIO()
    # The file may be larger than memory.
    with gzip.GzipFile("", "wb", 6, body, mtime=0) as packed, file.open("rb") as whole:
        shutil.copyfileobj(whole, packed, PIECE)
    objects.put(run.key("resolved", RESOLVED), body.getvalue())


class ResolverCache:
    """Resolved runs kept between tasks."""

    def __init__(self) -> None:
        self._idle: deque[tuple[str, ResolvedRun]] = deque(maxlen=MOST_IDLE)

    @contextmanager
    def lent(self, run: IngestRun, objects: ObjectStore) -> Iterator["ResolvedRun"]:
        """Lend the run's plan to one task at a time; raise `Unavailable` before `resolve`."""
        listed = objects.list(run.key("resolved", RESOLVED))
        version = run.run_id + "".join(entry.etag for entry in listed)
        try:
            of, resolved = self._idle.pop()
        except IndexError:
            of = ""
        if of != version:
            resolved = ResolvedRun(run, objects)
        yield resolved
        self._idle.append((version, resolved))


class ResolvedRun:
    """A copy of a run's staging file with its plan."""

    def __init__(self, run: IngestRun, objects: ObjectStore) -> None:
        self._run = run
        self._plan: LoadPlan | None = None
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

    def context(self, stores: Stores, recorded: Mapping[str, Encoding]) -> Context:
        """Return the load's context; raise `Unavailable` without the run's encoder.

        `recorded`: see `Context`.
        """
        head, model = self.head, self.head["context"]["model"]
        dense = stores.embedder if head["dense"] else None
        if head["dense"] and (dense is None or dense.model != model):
            raise Unavailable(f"the run requires the encoder {model!r}, which is not installed")
        report = LoadReport(run_id=self._run.run_id)
        report.sparse_model, report.embedding_model = head["sparse"], model
        return Context(
            namespace=self._run.namespace,
            stores=replace(stores, embedder=dense),
            staging=self.staging,
            rejects=RejectLog(),
            progress=NullProgress(),
            report=report,
            dense=dense,
            sparse=None,
            recorded=recorded,
            earlier=None if head["earlier"] is None else frozenset(head["earlier"]),
            **head["context"],
        )

    def plan(self, context: Context) -> LoadPlan:
        """Return the plan of `pipeline.plan`, for the resolver of `context`."""
        made = self._plan = self._plan or self._read_plan(context)
        # The copies share the set of written entities.
        return replace(made, resolver=replace(made.resolver, context=context))

    def _read_plan(self, context: Context) -> LoadPlan:
        rows, names = self.staging.plan, Names()
        # There may be a million aliases: share the ids.
        aliases = [(key, sys.intern(i), preferred) for key, i, preferred in rows("alias")]
        names.add(aliases)
        entities = {
            identity: NamedEntity(identity, name, kind, set(synonyms))
            for identity, name, kind, synonyms in rows("named")
        }
        labels = Labels(frozenset(rows("common")))
        return LoadPlan(
            resolver=EntityResolver(context, entities),
            finder=MentionFinder(Linker(aliases), names, labels),
            labels=labels,
            aliases=aliases,
            changed_keys=frozenset(rows("key")),
            changed_heads=frozenset(rows("heading")),
            **self.head["plan"],
        )
