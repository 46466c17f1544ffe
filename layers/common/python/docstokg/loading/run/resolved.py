"""What a run's `resolve` decides, kept for `write` and `close`: a slim staging and the names."""

import gzip
import io
import json
import shutil
import tempfile
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from docstokg.contracts.ingest import IngestRun
from docstokg.domain.graph.linking import Linker
from docstokg.errors import Unavailable, WrongAnswer
from docstokg.loading.context import Context, LoadReport, NullProgress, Stores
from docstokg.loading.names.candidates import Labels
from docstokg.loading.names.mentions import MentionFinder
from docstokg.loading.names.naming import Aliases, Entry, NamedEntity, Names
from docstokg.loading.pipeline import LoadPlan
from docstokg.loading.read.rejects import RejectLog
from docstokg.loading.read.staging import Staging
from docstokg.loading.resolve.entity_resolver import EntityResolver
from docstokg.loading.run.readings import RecordedEmbedder, RecordedSparse, readings
from docstokg.loading.run.rows import compressed, each_line, packed_lines
from docstokg.ports import ObjectStore

STAGING = "staging.sqlite.gz"
DECISIONS = "load_plan.jsonl.gz"
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
    """Keep what a run decided; `file`: the staging's. `summary`: more that its report tells.

    The decisions come last: who finds them finds both.
    """
    staging = context.staging
    earlier = context.earlier
    documents = staging.documents_beginning(None)
    head = {
        "model": context.model,
        "dimension": context.dimension,
        "dense": context.dense is not None,
        "sparse": context.report.sparse_model,
        "replace": context.replace_docs,
        "generation": context.generation,
        "earlier": None if earlier is None else [doc for doc in documents if doc in earlier],
        "everything": load_plan.everything,
        "recogniser": load_plan.recogniser,
        "gone": list(load_plan.gone),
        "said": {**summary, "chunks": staging.count("chunk")},
    }
    staging.empty()
    staging.save()
    objects.put(run.key("resolved", STAGING), compressed(_pieces(file)))
    objects.put(run.key("resolved", DECISIONS), packed_lines(_lines(head, load_plan)))


def _pieces(file: Path) -> Iterator[bytes]:
    """Read a file a piece at a time: it may be larger than memory."""
    with file.open("rb") as whole:
        yield from iter(lambda: whole.read(PIECE), b"")


def _lines(head: Mapping[str, Any], load_plan: LoadPlan) -> Iterator[str]:
    yield json.dumps(head)
    kinds = {
        "alias": load_plan.aliases,
        "curie": load_plan.resolver.aliases.of_curies(),
    }
    for kind, entries in kinds.items():
        for entry in entries:
            yield json.dumps([kind, *entry])
    for _, entity in sorted(load_plan.resolver.entities.items()):
        yield json.dumps(["named", entity.id, entity.name, entity.type, sorted(entity.synonyms)])
    labels = load_plan.labels
    sets = {
        "title": labels.titles,
        "common": labels.common,
        "key": load_plan.changed_keys,
        "head": load_plan.changed_heads,
    }
    for kind, keys in sets.items():
        for key in sorted(keys):
            yield json.dumps([kind, key])


class ResolverCache:
    """Resolved runs that a process keeps between its tasks: fetching one and its linker is work.

    One of an earlier run is given up when it is met.
    """

    def __init__(self) -> None:
        self._idle: deque[tuple[str, ResolvedRun]] = deque(maxlen=MOST_IDLE)

    @contextmanager
    def lent(self, run: IngestRun, objects: ObjectStore) -> Iterator["ResolvedRun"]:
        """Give the run's decisions as they are in the bucket now; to one task at a time."""
        listed = objects.list(run.key("resolved"))
        version = run.run_id + "".join(f" {entry.key} {entry.etag}" for entry in listed)
        resolved = None
        while resolved is None and self._idle:
            with suppress(IndexError):  # another task has taken the last one
                of, kept = self._idle.pop()
                if of == version:
                    resolved = kept
                else:
                    kept.close()
        resolved = resolved or ResolvedRun(run, objects)
        try:
            yield resolved
        except BaseException:
            resolved.close()
            raise
        self._idle.append((version, resolved))


class ResolvedRun:
    """A copy of a run's staging, and its plan, read from the bucket."""

    def __init__(self, run: IngestRun, objects: ObjectStore) -> None:
        """Fetch it; `Unavailable` when there is none yet."""
        self._run, self._objects = run, objects
        self._decided: LoadPlan | None = None
        try:
            lines = each_line(objects.get(run.key("resolved", DECISIONS)))
            body = objects.get(run.key("resolved", STAGING))
        except KeyError as missing:
            raise Unavailable(
                "nothing is decided of this run yet: `resolve` comes first"
            ) from missing
        self.head: dict[str, Any] = json.loads(next(lines))
        # A million names are read here: an id is one text, however many aliases lead to it.
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        ids: dict[str, str] = {}
        for line in lines:
            kind, first, *more = json.loads(line)
            if len(more) == 2:
                more[0] = ids.setdefault(more[0], more[0])
            self._rows.setdefault(kind, []).append((first, *more))
        with tempfile.NamedTemporaryFile(prefix="docstokg-resolve-", suffix=".sqlite") as file:
            try:
                with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
                    shutil.copyfileobj(packed, file, PIECE)
            except (OSError, EOFError, zlib.error) as broken:
                raise WrongAnswer("what the run decided is cut short") from broken
            file.flush()
            # SQLite keeps the file open: it goes when the staging is closed or the process ends.
            self.staging = Staging(Path(file.name))

    def close(self) -> None:
        """Close and remove the copy."""
        self.staging.close()

    def context(self, stores: Stores, shards: tuple[str, ...] = ()) -> Context:
        """Give the load's context; what was read of the chunks of `shards` is recalled."""
        head = self.head
        vectors, weights = readings(self._run, self._objects, shards)
        dense = sparse = None
        if head["dense"]:
            if stores.embedder is None or stores.embedder.model != head["model"]:
                raise Unavailable(f"the run writes vectors of {head['model']!r}: it is not here")
            dense = RecordedEmbedder(stores.embedder, vectors)
        if head["sparse"] is not None:
            sparse = RecordedSparse(head["sparse"], None, weights)
        report = LoadReport(run_id=self._run.run_id)
        report.sparse_model, report.embedding_model = head["sparse"], head["model"]
        return Context(
            namespace=self._run.namespace,
            stores=replace(stores, embedder=dense, sparse_encoder=sparse),
            staging=self.staging,
            rejects=RejectLog(),
            progress=NullProgress(),
            report=report,
            model=head["model"],
            dimension=head["dimension"],
            dense=dense,
            sparse=sparse,
            replace_docs=head["replace"],
            earlier=None if head["earlier"] is None else frozenset(head["earlier"]),
            generation=head["generation"],
        )

    def plan(self, context: Context) -> LoadPlan:
        """Return the plan that `pipeline.plan` made, for the resolver of `context`."""
        if self._decided is None:
            self._decided = self._decide(context)
            self._rows.clear()
        # Another task of the same load: both resolvers know what one wrote.
        return replace(self._decided, resolver=replace(self._decided.resolver, context=context))

    def _decide(self, context: Context) -> LoadPlan:
        names = Names()
        names.add(self._entries("curie"))
        entities = {
            identity: NamedEntity(identity, name, kind, set(synonyms))
            for identity, name, kind, synonyms in self._rows.pop("named", ())
        }
        labels = Labels(self._keys("title"), self._keys("common"))
        aliases = list(self._entries("alias"))
        return LoadPlan(
            resolver=EntityResolver(context, names, Aliases(()), entities),
            finder=MentionFinder(Linker(aliases), names, labels),
            labels=labels,
            aliases=aliases,
            changed_keys=self._keys("key"),
            changed_heads=self._keys("head"),
            everything=self.head["everything"],
            recogniser=self.head["recogniser"],
            gone=self.head["gone"],
        )

    def _entries(self, kind: str) -> Iterator[Entry]:
        for key, identity, preferred in self._rows.pop(kind, ()):
            yield key, identity, bool(preferred)

    def _keys(self, kind: str) -> frozenset[str]:
        return frozenset(row[0] for row in self._rows.pop(kind, ()))
