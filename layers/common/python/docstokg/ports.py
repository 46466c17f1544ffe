"""Ports: Protocols of external dependencies; every call takes `deadline` and keeps it.

Ports raise errors of `docstokg.errors`: `Timeout`, `Unavailable` for an unreachable dependency,
`WrongAnswer` for an invalid response.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from docstokg.contracts.completion import Completion
from docstokg.contracts.documents import Job, JobOrder
from docstokg.contracts.envelope import Caller, Envelope, Reply
from docstokg.contracts.graph import GraphSlice, SliceEntity, SliceRequest
from docstokg.contracts.outline import Outline
from docstokg.contracts.records import (
    ChunkNode,
    ChunkRecord,
    DocumentChange,
    DocumentRecord,
    EntityRecord,
    FactRecord,
    FoundName,
    GraphInfo,
    IndexInfo,
    MentionRecord,
    RelationRecord,
    Scope,
    VectorRow,
)
from docstokg.contracts.retrieval import ChannelQuery, ChannelResult, Hydrated
from docstokg.contracts.state import TraceMessage
from docstokg.domain.deadline import Deadline


class SearchIndex(Protocol):
    """Chunks and facts, searchable by words, learned weights and vectors."""

    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, deadline: Deadline
    ) -> tuple[ChannelResult, ...]:
        """Run all `queries` in one round trip; return results in their order.

        A failing channel is reported in its result; only a failure of the whole call raises.
        """

    def get(self, uuids: Sequence[str], scope: Scope, deadline: Deadline) -> Hydrated:
        """Return chunks by uuid in one round trip; unknown and hidden ones are `missing`."""

    def sentence_vectors(
        self, uuids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> dict[str, bytes]:
        """Return the packed sentence vectors of chunks by uuid, in one round trip.

        Chunks hidden by `scope`, and those without such vectors, are omitted.
        """

    def info(self, deadline: Deadline, refresh: bool = False) -> IndexInfo:
        """Return contents and embedding models of the index; raise `NotLoaded` if there is none.

        `refresh`: skip the cache, whose entry may precede another load.
        """

    def generation(self, namespaces: Sequence[str], deadline: Deadline) -> str | None:
        """Return an id of the index contents, which changes after every load and removal.

        Never cached. None (or `NotLoaded`) before the first load ends, and None during an open or
        unfinished load into one of the namespaces.
        """


class IndexWriter(Protocol):
    """Loading side of a search index: idempotent writes."""

    def hold(
        self,
        wait_s: float,
        waiting: Callable[[int], None] | None = None,
        run: str = "",
        keeps_lease: bool = False,
        namespace: str = "",
    ) -> AbstractContextManager[None]:
        """Hold a namespace's lease against other loads and removals, also on other machines.

        Waits for the current holder, calling `waiting` with the seconds since its last call; raises
        `Timeout` after `wait_s`. A killed holder's lease expires within 30 s. `run`: its tasks
        share the lease, if supported. `keeps_lease`: do not release the lease.
        """

    def open_load(
        self,
        run_id: str,
        embedding_model: str | None,
        dimension: int | None,
        sparse_model: str | None,
        namespace: str = "",
    ) -> None:
        """Start a load; raise `Misconfigured` if the namespace was embedded by another model.

        Without a namespace, or with a single vector space, the whole index is checked. The load is
        unfinished until `close_load` of the same namespace.
        """

    def fingerprints(self, namespace: str, uuids: Sequence[str]) -> dict[str, str]:
        """Map those uuids that are stored to their fingerprints (see `put`)."""

    def put(self, chunks: Sequence[tuple[ChunkRecord, str]]) -> None:
        """Write chunks with their content fingerprints, replacing by uuid, all or none."""

    def put_document(self, change: DocumentChange) -> int:
        """Update a stored document; return the number of removed chunks, without replaced ones.

        No call of `SearchIndex.get` returns both old and new text of it.
        """

    def put_facts(self, facts: Sequence[FactRecord]) -> None:
        """Write facts, replacing by id, all or none."""

    def doc_uuids(self, namespace: str, doc_id: str) -> tuple[str, ...]:
        """Return the chunk uuids of one document, sorted."""

    def delete(self, namespace: str, uuids: Sequence[str] | None) -> int:
        """Remove chunks (None: the namespace's) with their facts; return the number of chunks."""

    def close_load(self, namespace: str = "") -> None:
        """Make all writes durable and searchable, and the load into a namespace finished."""

    def replace_vectors(
        self, namespace: str, model: str, dimension: int, rows: Iterable[VectorRow]
    ) -> None:
        """Replace the vectors of all chunks of a namespace atomically and durably."""

    def stored_chunks(self, namespace: str) -> Iterator[tuple[ChunkRecord, str]]:
        """Yield every chunk as written, with its fingerprint, by uuid."""

    def stored_facts(self, namespace: str) -> Iterator[FactRecord]:
        """Yield every fact, by id."""


class DocumentRegister(Protocol):
    """Register of stored documents."""

    def put(self, documents: Sequence[DocumentRecord]) -> None:
        """Write records, replacing by namespace and id."""

    def documents(self, namespace: str, after: str = "") -> tuple[DocumentRecord, ...]:
        """Return a page of records after the doc_id `after`, by doc_id, without texts.

        () after the last page.
        """

    def find(self, namespace: str, doc_ids: Sequence[str]) -> tuple[DocumentRecord, ...]:
        """Return the records of those `doc_ids` that are stored, without texts, in any order."""

    def text(self, namespace: str, doc_id: str) -> str | None:
        """Return the converted text of a document; None if it is unknown or a text file."""

    def original(self, namespace: str, doc_id: str) -> bytes | None:
        """Return the original file of a document; None if it is not stored."""

    def forget(self, namespace: str, doc_ids: Sequence[str] | None) -> None:
        """Remove records with their texts (None: all of the namespace)."""

    def namespaces(self) -> tuple[str, ...]:
        """Return the namespaces that contain documents."""


def every_document(
    register: DocumentRegister, namespace: str, after: str = ""
) -> Iterator[DocumentRecord]:
    """Yield every record of a namespace after the doc_id `after`, in order, without texts."""
    while page := register.documents(namespace, after):
        yield from page
        after = page[-1].doc_id


class JobQueue(Protocol):
    """Queue of loads and removals."""

    def add(self, order: JobOrder) -> bool:
        """Queue a job; return False if its namespace has too many."""

    def get(self, job_id: str) -> Job | None:
        """Return the state of a job, or None if it is unknown."""

    def cancel(self, job_id: str) -> None:
        """Cancel an unfinished job (ignore others); documents loaded so far stay."""

    def unfinished(self) -> Mapping[str, int]:
        """Return the number of queued and running jobs of each namespace that has any."""


class StoredObject(NamedTuple):
    """A listed object of a bucket. `size`: bytes; `modified`: seconds since 1970."""

    key: str
    size: int
    etag: str
    modified: float


class ObjectStore(Protocol):
    """One bucket of objects by key."""

    def list(self, prefix: str, after: str = "") -> Sequence[StoredObject]:
        """Return at most 1,000 objects below `prefix` in byte order of keys; () at the end.

        `after`: key of the last object of the previous page.
        """

    def get(self, key: str) -> bytes:
        """Return an object; raise KeyError if it is missing."""

    def put(self, key: str, body: bytes) -> None:
        """Write an object, replacing by key."""

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is ignored."""


class LoadRun(NamedTuple):
    """An execution of the load state machine. `arguments`: its input; `failed`: no report."""

    arguments: Mapping[str, Any]
    finished: bool
    failed: bool


class LoadRuns(Protocol):
    """Executions of the load state machine."""

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Start a run; repeated calls with the same name and arguments start it once."""

    def call_later(
        self, name: str, after_s: float, function: str, event: Mapping[str, Any]
    ) -> None:
        """Call a function with `event` after `after_s` seconds, instead of the last such `name`."""

    def scheduled(self, name: str) -> Mapping[str, Any] | None:
        """Return the event of the call of this `name`; None if there is none."""

    def stop(self, name: str) -> None:
        """Stop an unfinished run."""

    def find(self, name: str) -> LoadRun | None:
        """Return the state of a run; None if it is unknown or expired."""

    def unfinished(self) -> Mapping[str, float]:
        """Return the start times of at most 100 unfinished runs, by name, in epoch seconds."""


class KnowledgeGraph(Protocol):
    """Read-only graph."""

    def slice(self, request: SliceRequest, scope: Scope, deadline: Deadline) -> GraphSlice:
        """Look up aliases and the 1-hop neighbourhood in one round trip."""

    def widen(
        self, frontier: Sequence[str], request: SliceRequest, scope: Scope, deadline: Deadline
    ) -> GraphSlice:
        """Return one more hop around the entity ids in `frontier`, in one round trip."""

    def entities(
        self, ids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> tuple[SliceEntity, ...]:
        """Return entities by id in any case, sorted by id; unknown and hidden ones are omitted."""

    def names(
        self, ids: Sequence[str], scope: Scope, deadline: Deadline
    ) -> dict[str, tuple[str, ...]]:
        """Map each visible id, as stored, to its preferred name followed by its synonyms."""

    def vectors(self, ids: Sequence[str], scope: Scope, deadline: Deadline) -> dict[str, bytes]:
        """Map visible ids to the stored vectors of their names; those without are omitted."""

    def info(self, deadline: Deadline) -> GraphInfo:
        """Return the counts of the graph after the last finished load."""


class GraphWriter(Protocol):
    """Loading side of the graph: idempotent batches, each all or none."""

    def put_chunks(self, nodes: Sequence[ChunkNode]) -> None:
        """Write chunk nodes with their documents and topics, replacing by uuid."""

    def put_entities(self, entities: Sequence[EntityRecord]) -> None:
        """Write entities with their aliases, replacing by id."""

    def put_relations(self, relations: Sequence[RelationRecord]) -> None:
        """Write relations, replacing by (source, type, target, evidence); create missing ends."""

    def put_mentions(self, namespace: str, mentions: Mapping[str, Sequence[MentionRecord]]) -> None:
        """Replace all mentions of each given chunk uuid; the first of each entity is kept.

        The chunk is about an entity if one of its records is `about`.
        """

    def aliases(self, namespace: str) -> Iterable[tuple[str, str, bool]]:
        """Yield (folded key, entity id, is the preferred name), sorted.

        Names of obsolete entities lead to their replacement.
        """

    def labels(self, namespace: str) -> Iterable[tuple[str, str, str, str]]:
        """Yield (uuid, doc_id, title, section) of every chunk of a namespace, sorted."""

    def put_names(self, namespace: str, names: Mapping[str, str]) -> None:
        """Store the names found in chunks, by chunk uuid; `put_chunks` clears them."""

    def names(self, namespace: str) -> Iterable[tuple[str, str]]:
        """Yield (uuid, stored names or "") of every chunk of a namespace.

        `put_names` may be called during the iteration.
        """

    def relation_ends(self, namespace: str, uuids: Sequence[str]) -> dict[str, set[str]]:
        """Map uuids of chunks that are evidence for relations to the entity ids at their ends."""

    def most_mentioned(self, namespace: str, limit: int) -> tuple[SliceEntity, ...]:
        """Return the entities mentioned by most chunks, in descending order, then by id."""

    def recogniser(self, namespace: str) -> str | None:
        """Return the name recogniser of a namespace; None or "" if unknown."""

    def note_recogniser(self, namespace: str, name: str) -> None:
        """Record the name recogniser of a namespace."""

    def delete(self, namespace: str, uuids: Sequence[str] | None, tidy: bool = True) -> int:
        """Remove chunks (None: all, and every entity) with their mentions and relations.

        Then remove unsupported entities, without `tidy` perhaps only in `close_load`. Return the
        number of chunks.
        """

    def close_load(self, namespace: str = "") -> None:
        """Make the writes into a namespace ("": all) durable and readable, with updated counts."""

    def stored_nodes(self, namespace: str) -> Iterator[ChunkNode]:
        """Yield every chunk, by uuid."""

    def stored_entities(self, namespace: str) -> Iterator[EntityRecord]:
        """Yield every written entity, by id; other ends follow from relations and mentions."""

    def stored_relations(self, namespace: str) -> Iterator[RelationRecord]:
        """Yield every relation, by source, type, target and evidence."""

    def stored_mentions(self, namespace: str) -> Iterator[MentionRecord]:
        """Yield every mention, by chunk and entity."""


Spans = Sequence[tuple[int, int]]
Parts = tuple[bytes, bytes]


class Embedder(Protocol):
    """Encoder of texts as unit vectors of one space."""

    @property
    def model(self) -> str:
        """Return the name of the vector space, as recorded in the index."""

    @property
    def dimension(self) -> int:
        """Return the number of components."""

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one float32 little-endian unit vector per passage (None: no limit, loading)."""

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Return each text's vector and the packed vectors of its parts, for loading.

        `parts`: spans per text, in code points. See `domain.vectors.packed`.
        """


@runtime_checkable
class QuestionReader(Protocol):
    """An embedder with a question mode."""

    def embed_questions(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return one unit vector per question, in the space of the passages."""


def embed_questions(
    embedder: Embedder, texts: Sequence[str], deadline: Deadline | None
) -> tuple[bytes, ...]:
    """Embed questions with the encoder's question mode, if it has one."""
    if isinstance(embedder, QuestionReader):
        return embedder.embed_questions(texts, deadline)
    return embedder.embed(texts, deadline)


@runtime_checkable
class EncoderChoice(Protocol):
    """An embedder that provides others."""

    def of(self, model: str) -> Embedder | None:
        """Return the encoder of a vector space, None if it is not installed."""


def encoder_of(embedder: Embedder | None, model: str | None) -> Embedder | None:
    """Return the encoder of `model` (None: any): this one, one that it provides, or None."""
    if embedder is None or model in (None, embedder.model):
        return embedder
    return embedder.of(model) if isinstance(embedder, EncoderChoice) and model else None


class LanguageFinder(Protocol):
    """Language identification."""

    def language(self, text: str) -> str:
        """Return an ISO 639-1 code; "" for English or unknown."""

    def probabilities(self, text: str) -> dict[str, float]:
        """Return the probability per ISO 639-1 code of each supported language and English."""


class NameFinder(Protocol):
    """Name recogniser for loads."""

    @property
    def model(self) -> str:
        """Return the name of the recogniser, as recorded in the graph."""

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        """Return the names in each text, without duplicates, in the order of `texts`."""


class SparseEncoder(Protocol):
    """Encoder of texts as weighted tokens of one vocabulary."""

    @property
    def model(self) -> str:
        """Return the name of vocabulary and weights, as recorded in the index."""

    def encode(
        self, texts: Sequence[str], deadline: Deadline | None
    ) -> tuple[dict[str, float], ...]:
        """Return token -> weight (> 0) per passage, in the order of `texts`."""

    def encode_query(self, text: str, deadline: Deadline | None) -> dict[str, float]:
        """Return token -> weight (> 0) for a question."""


class Reranker(Protocol):
    """A cross-encoder."""

    @property
    def model(self) -> str:
        """Return the name of the model."""

    def rank(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float, ...]:
        """Return one relevance score per passage, in their order; higher is better."""


class Reader(Protocol):
    """A cross-encoder of the built-in model; unlike a `Reranker`, it returns parts in time."""

    def logits(
        self, question: str, texts: Sequence[str], deadline: Deadline
    ) -> tuple[float | None, ...]:
        """Return a logit per text: whether it answers; None where time ran out."""


class Pair(NamedTuple):
    """A claim and its sources, at least one."""

    claim: str
    sources: tuple[str, ...]


class Opinion(NamedTuple):
    """Probabilities in [0, 1] that a source supports or contradicts a claim (None: unknown).

    `quotes`: the decisive sentences of the sources, at most three; the opinion counts only if they
    carry the claim.
    """

    supported: float
    contradicted: float | None = None
    quotes: tuple[str, ...] = ()


class Verifier(Protocol):
    """A model that decides whether sources support a claim."""

    @property
    def name(self) -> str:
        """Return the name for responses and logs, such as `onnx:FOLDER` or `llm:MODEL`."""

    @property
    def threshold(self) -> float:
        """Return the probability at which a claim counts as supported."""

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        """Return one opinion per pair, the strongest over its sources; None if undecided."""


def strongest(opinions: Sequence[Opinion]) -> Opinion:
    """Return the maxima over the opinions on one pair, without a quote; ValueError for none."""
    contradicted = [
        opinion.contradicted for opinion in opinions if opinion.contradicted is not None
    ]
    return Opinion(max(opinion.supported for opinion in opinions), max(contradicted, default=None))


class LanguageModel(Protocol):
    """A generative language model."""

    def context_tokens(self, model: str) -> int | None:
        """Return the context size of a model in tokens; None if unknown."""

    def complete(  # noqa: PLR0913 - one call with named arguments
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        model: str,
        temperature: float,
        max_tokens: int,
        deadline: Deadline,
        schema: Mapping[str, Any] | None = None,
        on_text: Callable[[str], bool] | None = None,
    ) -> Completion:
        """Return one completion; also raise `QuotaExceeded` and `Misconfigured`.

        `schema`: JSON Schema of the text, if supported. `on_text`: called with the text so far;
        False closes the call. `Timeout` only before any text; with `on_text`, later text is cut.
        """

    def price(self, model: str) -> tuple[float, float] | None:
        """Return dollars per input and output token; None if unknown."""


class ReplyStore(Protocol):
    """Model replies for loads, by request; they never expire."""

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Return the stored replies by key; unknown keys are omitted."""

    def put(self, replies: Mapping[str, str]) -> None:
        """Store replies, durable on return."""


class ResponseCache(Protocol):
    """Response bodies by scope key."""

    def get(self, key: str, deadline: Deadline) -> tuple[str, str] | None:
        """Return (request hash, body), or None if the key is unknown or expired."""

    def put(self, key: str, request_hash: str, body: str, ttl_s: int, deadline: Deadline) -> None:
        """Store a body for `ttl_s` seconds, replacing by key; `request_hash`: of its request."""


class TraceSink(Protocol):
    """Destination of retrieval traces."""

    def send(self, message: TraceMessage, deadline: Deadline) -> None:
        """Send one message, or raise within the timeout."""


class TraceStore(Protocol):
    """Storage of recorded traces."""

    def write(self, messages: Sequence[TraceMessage], deadline: Deadline) -> None:
        """Write all messages or none; idempotent."""

    def read(self, request_id: str, deadline: Deadline) -> TraceMessage | None:
        """Return the trace of a request, lists by rank or falling score; None if there is none."""

    def remove_before(self, epoch_ms: int, deadline: Deadline) -> int:
        """Remove the traces of requests before `epoch_ms`; return their number."""


class ReceiptKeys(Protocol):
    """Signing key of receipts, and the public keys to publish."""

    @property
    def key_id(self) -> str:
        """Return the id of the signing key."""

    def sign(self, body: dict[str, Any]) -> str:
        """Return the signature of a response in base64; raise ValueError for invalid JSON."""

    def key_set(self) -> dict[str, Any]:
        """Return the public keys as a JSON Web Key Set."""


class TokenVerifier(Protocol):
    """Verifier of bearer tokens."""

    def caller(self, token: str) -> Caller | None:
        """Return the caller, None for an invalid token; raise `Unavailable` without keys."""


class CallCounter(Protocol):
    """Counters shared by all processes of a deployment."""

    def add(self, key: str, ttl_s: int, deadline: Deadline) -> int:
        """Increment a counter that expires after `ttl_s` seconds; return the new value."""


class Workflow(Protocol):
    """A state machine or function, local or remote."""

    def run(self, envelope: Envelope) -> Reply:
        """Run it once and return its reply."""


class PieceCounter(Protocol):
    """Word pieces of the encoder."""

    def starts(self, text: str) -> Sequence[int]:
        """Return the starts of the pieces of a text, ascending, in code points."""


class Converter(Protocol):
    """Converter of document formats to text."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Map each supported suffix to name and version of its reader."""

    def convert(self, suffix: str, raw: bytes) -> tuple[Outline, ...]:
        """Convert one file, usually to one document; raise `LoadError` on failure.

        The text of `.md`, `.txt` and `.rst` is the decoded file; that of others is generated.
        """
