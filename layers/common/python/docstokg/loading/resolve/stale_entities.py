"""Which stored names may have gone with the texts that a load replaces, and who still brings them.

An entity that no list gave is the sum of what texts say of it: its name as it is written best, its
kind, its other forms. When a text goes, what only that text said goes too, as if it had never been
loaded. The texts that stay tell: those of this load are named anyway, and of the earlier ones those
are named again that hold a name that may be stale.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import batched

from docstokg.contracts.records import StoredChunk
from docstokg.domain.graph.linking import Linker
from docstokg.domain.identity import chunk_uuid, entity_id, is_own_id
from docstokg.domain.text.folding import alias_keys
from docstokg.domain.text.names import heading_name, title_names
from docstokg.domain.text.words import fold
from docstokg.errors import Unavailable
from docstokg.loading.context import READ_S, ROW_BATCH, Context
from docstokg.loading.names.candidates import Labels, NameRow, as_raw, candidate_names
from docstokg.loading.names.naming import NamedEntity
from docstokg.loading.read.raw_input import RawChunk
from docstokg.loading.read.records import fingerprint, is_linked_here, same_statements
from docstokg.loading.resolve.entity_resolver import EntityResolver, stored_names

UNREAD = (
    "names that only replaced or removed texts brought are kept: what finds names is not"
    " installed here"
)

_NO_PARTS = Labels((), (), set())
"""No section label counts as a part: an old text gives every name it can have given."""


@dataclass(frozen=True, slots=True)
class StaleEntities:
    """Stored entities that this load alone names anew: what was stored of their names is dropped.

    `stored`: what the store says of them, where that was read.
    """

    ids: Set[str] = frozenset()
    stored: dict[str, NamedEntity] = field(default_factory=dict)

    def changed(self, resolver: EntityResolver) -> Iterator[str]:
        """List those that are named otherwise now; what mentions them may stay as it is."""
        for identity, before in sorted(self.stored.items()):
            now = resolver.entities.get(identity)
            if now is not None and now != before:
                yield identity


def stale_entities_of(
    context: Context, labels: Labels, leaving: Set[str], everything: bool, must: bool
) -> StaleEntities:
    """Find the stale entities, and keep the names of the earlier chunks that still bring them.

    The load's own names are kept before. `leaving`: see `leaving_of`. `everything`: all earlier
    texts are read for names again, not only what hangs on texts that leave. `must`: the load fails
    where texts cannot be read for names.
    """
    try:
        return _Search(context, labels, leaving).stale_entities(everything)
    except _Unread:
        if must:
            raise
        context.report.warnings.append(UNREAD)
        return StaleEntities()


class _Unread(Unavailable):
    """The recogniser of this store is not installed here."""


class _Search:
    """One load's search for the texts that name what replaced or removed texts have named."""

    def __init__(self, context: Context, labels: Labels, leaving: Set[str]) -> None:
        self._context, self._labels, self._leaving = context, labels, leaving
        self._graph = context.stores.graph_writer
        # Chunks whose edges fall; and chunks with given mentions, on their way out or staying.
        self._silent: set[str] = set()
        self._own_mentions_out: set[str] = set()
        self._own_mentions_kept: set[str] = set()

    def stale_entities(self, everything: bool) -> StaleEntities:
        """Find the stale entities; `everything`: name all earlier texts again."""
        is_first = self._context.earlier is not None and not self._context.earlier
        lost = set() if is_first else self._lost(with_names=not everything)
        if everything:
            ids = {row[1] for row in self._graph.aliases(self._context.namespace)}
            candidates = _StaleCandidates(NamedEntity(i, "") for i in ids if is_own_id(i))
            self._read_earlier(None, candidates)
        else:
            candidates = _StaleCandidates(
                named
                for batch in batched(sorted(lost), ROW_BATCH, strict=False)
                for named in stored_names(self._context, batch)
            )
            candidates.see(self._context.staging.names())
            candidates.settle()
            if candidates.open or self._labels.freed:
                self._read_earlier(self._labels.freed, candidates)
        self._keep_supported(candidates)
        return StaleEntities(frozenset(candidates.open), {} if everything else candidates.open)

    def _lost(self, with_names: bool) -> set[str]:
        """List the entities that old texts brought, and no text of this load brings alike."""
        rows: set[NameRow] = set()
        ids = {entity_id(key) for key in self._labels.changed}
        for chunks in self._old():
            if with_names:
                rows.update(self._names(_NO_PARTS, chunks))
        if rows:
            rows.difference_update(self._context.staging.names())
        ids.update(entity_id(surface) for surface, _, _ in rows)
        for batch in batched(sorted(self._silent), ROW_BATCH, strict=False):
            for ends in self._graph.stated(self._context.namespace, batch).values():
                ids.update(ends)
        ids.update(self._mentioned(self._own_mentions_out))
        return {identity for identity in ids if is_own_id(identity)}

    def _old(self) -> Iterator[list[RawChunk]]:
        """Yield the stored chunks that this load removes or names otherwise, and note them."""
        context, staged = self._context, set[str]()
        for batch in batched(context.staging.chunks(), ROW_BATCH, strict=False):
            now = {chunk_uuid(context.namespace, chunk.id): chunk for chunk in batch}
            staged.update(now)
            yield self._changed(now)
        for gone in batched(sorted(self._leaving - staged), ROW_BATCH, strict=False):
            marks = context.stores.index_writer.fingerprints(context.namespace, gone)
            self._silent.update(marks)
            self._own_mentions_out.update(u for u in marks if not is_linked_here(marks[u]))
            yield [as_raw(chunk) for chunk in self._texts(list(marks))]

    def _changed(self, now: dict[str, RawChunk]) -> list[RawChunk]:
        context = self._context
        earlier = context.earlier
        uuids = [u for u, chunk in now.items() if earlier is None or chunk.doc_id in earlier]
        if not uuids:
            return []
        dense = context.model if context.dense is not None and context.model else ""
        sparse = context.sparse.model if context.sparse is not None else ""
        marks = context.stores.index_writer.fingerprints(context.namespace, uuids)
        other = []
        for uuid, before in marks.items():
            mark = fingerprint(now[uuid], dense, sparse)
            if not is_linked_here(before):
                # A mark tells nothing of given mentions.
                self._own_mentions_out.add(uuid)
            if before != mark:
                other.append(uuid)
                if not same_statements(before, mark):
                    self._silent.add(uuid)
        pairs = ((as_raw(chunk), now[chunk.uuid]) for chunk in self._texts(other))
        return [old for old, new in pairs if _named_by(old) != _named_by(new)]

    def _texts(self, uuids: Sequence[str]) -> list[StoredChunk]:
        context = self._context
        if not uuids:
            return []
        chunks = context.stores.search_index.get(uuids, context.scope, READ_S).chunks
        return [chunk for _, chunk in sorted(chunks.items())]

    def _names(self, labels: Labels, chunks: Sequence[RawChunk]) -> list[NameRow]:
        try:
            return list(candidate_names(self._context.stores.names, labels, chunks))
        except Unavailable as missing:
            raise _Unread(str(missing)) from missing

    def _read_earlier(self, keys: Set[str] | None, candidates: "_StaleCandidates") -> None:
        """Keep the names of the chunks that stay: of those that may bring one that may be stale.

        `keys`: folded names that are looked for to the end; None: all chunks are named.
        """
        context = self._context
        stored = (u for u, *_ in self._graph.labels(context.namespace) if u not in self._leaving)
        for batch in batched(stored, ROW_BATCH, strict=False):
            if keys is not None and not keys and not candidates.open:
                return
            marks = context.stores.index_writer.fingerprints(context.namespace, batch)
            self._own_mentions_kept.update(u for u in marks if not is_linked_here(marks[u]))
            chunks = self._texts([u for u in batch if u in marks])
            if keys is not None:
                chunks = list(filter(_may_bring(keys | candidates.keys()), chunks))
            # Of given mentions the names are not known, but nothing is read from the text.
            own = self._own_mentions_kept
            raw = [replace(as_raw(c), mentions=() if c.uuid in own else None) for c in chunks]
            rows = self._names(self._labels, raw)
            for row in rows:
                context.staging.add_name(*row)
            if keys is not None:
                candidates.see(rows)
                candidates.settle()

    def _keep_supported(self, candidates: "_StaleCandidates") -> None:
        """Keep what the store says of the ends of edges that stay, and of given mentions.

        How their names were written stands in no text, so that their kinds and forms stay too.
        """
        if not candidates.open:
            return
        for relation in self._graph.stored_relations(self._context.namespace):
            if relation.evidence_uuid not in self._silent:
                candidates.drop((relation.source, relation.target))
        candidates.drop(self._mentioned(self._own_mentions_kept))

    def _mentioned(self, uuids: Set[str]) -> set[str]:
        if not uuids:
            return set()
        mentions = self._graph.stored_mentions(self._context.namespace)
        return {mention.entity for mention in mentions if mention.uuid in uuids}


class _StaleCandidates:
    """Entities that may be stale: as stored, and as texts that stay have named them so far."""

    def __init__(self, stored: Iterable[NamedEntity]) -> None:
        self.open = {entity.id: entity for entity in stored}
        self._seen: dict[str, NamedEntity] = {}

    def see(self, rows: Iterable[NameRow]) -> None:
        """Take the names of texts that stay."""
        if not self.open:
            return
        for surface, kind, synonym in rows:
            identity = entity_id(surface)
            if identity in self.open:
                entity = self._seen.setdefault(identity, NamedEntity(identity, surface))
                entity.take(surface, kind, (synonym,) if synonym else ())

    def settle(self) -> None:
        """Take out what was named as it is stored."""
        for identity, seen in self._seen.items():
            if self.open.get(identity) == seen:
                del self.open[identity]

    def drop(self, identities: Iterable[str]) -> None:
        """Take these out."""
        for identity in identities:
            self.open.pop(identity, None)

    def keys(self) -> set[str]:
        """Give the folded names of those that are left."""
        return {
            key
            for entity in self.open.values()
            for key, _ in alias_keys(entity.id, entity.name, entity.synonyms)
        }


def _may_bring(keys: Set[str]) -> Callable[[StoredChunk], bool]:
    """Give what tells whether a chunk may bring one of folded names: by text, title or section."""
    linker = Linker((key, "", True) for key in keys)

    def may(chunk: StoredChunk) -> bool:
        heads = [*title_names(chunk.title, chunk.document_name, chunk.doc_id)]
        if chunk.section and (heading := heading_name(chunk.section)):
            heads.append(heading)
        named = any(fold(head) in keys for head in heads)
        return named or bool(linker.find(chunk.text, lower_case=True))

    return may


def _named_by(chunk: RawChunk) -> tuple[object, ...]:
    """Give what the names of a chunk come from, but for given mentions."""
    return chunk.text, chunk.title, chunk.document_name, chunk.doc_id, chunk.section
