"""What the product needs from outside, as Protocols; every call takes `timeout_s` and keeps it.

All ports are synchronous and raise the tree of `docstokg.errors`: `Timeout` in time,
`Unavailable` when the other side is not there, `WrongAnswer` when it talks nonsense.
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


class SearchIndex(Protocol):
    """Chunks and facts, searchable by words, learned weights and vectors."""

    def search(
        self, queries: Sequence[ChannelQuery], scope: Scope, timeout_s: float
    ) -> tuple[ChannelResult, ...]:
        """Answer all `queries` in one round trip, results in their order.

        A channel that fails says so in its result; only the failure of the whole trip raises.
        """

    def get(self, uuids: Sequence[str], scope: Scope, timeout_s: float) -> Hydrated:
        """Read chunks by uuid in one round trip; what `scope` hides is `missing`."""

    def sentence_vectors(
        self, uuids: Sequence[str], scope: Scope, timeout_s: float
    ) -> dict[str, bytes]:
        """Read the packed vectors of chunks' sentences by uuid, in one round trip.

        Chunks that `scope` hides, and those without such vectors, are left out.
        """

    def info(self, timeout_s: float, anew: bool = False) -> IndexInfo:
        """Say what the index holds and which embedding model fixed its vector space.

        `anew`: never a remembered answer, which may be one of before another load.
        """

    def generation(self, timeout_s: float) -> str | None:
        """Name what the index holds: another name after every load and removal, in every index.

        Never a remembered answer. None while a load is open or unfinished, and where none ended.
        """


class IndexWriter(Protocol):
    """The loading side of a search index: whole chunks or nothing, repeatable."""

    def hold(
        self,
        wait_s: float,
        waiting: Callable[[int], None] | None = None,
        run: str = "",
        more: bool = False,
    ) -> AbstractContextManager[None]:
        """Keep every other load and removal out of this index, within and beyond this machine.

        Waits for the one under way and calls `waiting` with the seconds waited since it was last
        called; `Timeout` after `wait_s`. The lease of a killed holder passes on within 30 s.
        `run`: who names the same run shares the lease, where the index takes several writers at
        once, else waits for its other tasks. `more` of them follow: the lease is not given back,
        it runs out.
        """

    def open_load(
        self,
        run_id: str,
        embedding_model: str | None,
        dimension: int | None,
        sparse_model: str | None,
        namespace: str = "",
    ) -> None:
        """Start a load; `Misconfigured` when the namespace was embedded by another model.

        So an index is, where it has but one space, and where no namespace is given.
        """

    def fingerprints(self, namespace: str, uuids: Sequence[str]) -> dict[str, str]:
        """Map each stored uuid to the fingerprint it was stored with (see `put`)."""

    def put(self, chunks: Sequence[tuple[ChunkRecord, str]]) -> None:
        """Write chunks with their content fingerprints, replacing by uuid, all or none."""

    def put_document(self, change: DocumentChange) -> int:
        """Change a stored document; count the chunks removed.

        No reader gets old and new text of it in one answer of `SearchIndex.get`.
        """

    def put_facts(self, facts: Sequence[FactRecord]) -> None:
        """Write facts, replacing by id, all or none."""

    def doc_uuids(self, namespace: str, doc_id: str) -> tuple[str, ...]:
        """List the chunks of one document."""

    def delete(self, namespace: str, uuids: Sequence[str] | None) -> int:
        """Remove chunks with the facts they state (None: the whole namespace); count them."""

    def close_load(self) -> None:
        """Make everything put so far searchable on all channels, durably."""

    def replace_vectors(
        self, namespace: str, model: str, dimension: int, rows: Iterable[VectorRow]
    ) -> None:
        """Give every chunk of a namespace the vectors of another model, all at once or not at all.

        Until then the old ones answer; durable and searchable when it returns.
        """

    def stored_chunks(self, namespace: str) -> Iterator[tuple[ChunkRecord, str]]:
        """Yield every chunk as it was put, with its fingerprint, by uuid."""

    def stored_facts(self, namespace: str) -> Iterator[FactRecord]:
        """Yield every fact, by id."""


class DocumentRegister(Protocol):
    """Which documents a store holds, where they came from, and the texts made of them."""

    def put(self, documents: Sequence[DocumentRecord]) -> None:
        """Write records, replacing by namespace and id."""

    def documents(self, namespace: str, after: str = "") -> tuple[DocumentRecord, ...]:
        """List a page of records by doc_id, those that follow `after`, without their texts."""

    def find(self, namespace: str, doc_ids: Sequence[str]) -> tuple[DocumentRecord, ...]:
        """Read the records of some documents, without their texts, in no promised order."""

    def text(self, namespace: str, doc_id: str) -> str | None:
        """Read the text a converter made of a document; None where there is none."""

    def original(self, namespace: str, doc_id: str) -> bytes | None:
        """Read the file a document was; None where it, or any, is not kept."""

    def forget(self, namespace: str, doc_ids: Sequence[str] | None) -> None:
        """Remove records with their texts (None: the whole namespace)."""

    def namespaces(self) -> tuple[str, ...]:
        """List the namespaces that hold documents."""


class JobQueue(Protocol):
    """Loads and removals that are asked for now and done later."""

    def add(self, order: JobOrder) -> bool:
        """Queue a job; False when as many of its namespace wait as may."""

    def get(self, job_id: str) -> Job | None:
        """Say how a job goes; None when there is none of this name."""

    def cancel(self, job_id: str) -> None:
        """End a job that has not ended; what it has loaded stays."""


class StoredObject(NamedTuple):
    """An object of a bucket as a list names it. `size`: bytes; `modified`: seconds since 1970."""

    key: str
    size: int
    etag: str
    modified: float


class ObjectStore(Protocol):
    """One bucket of objects by key."""

    def list(self, prefix: str, after: str = "") -> Sequence[StoredObject]:
        """List at most 1,000 objects below `prefix` by the bytes of their keys, after `after`."""

    def get(self, key: str) -> bytes:
        """Read an object; KeyError when it is not there."""

    def put(self, key: str, body: bytes) -> None:
        """Write an object."""

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is removed already."""


class LoadRun(NamedTuple):
    """A run of the loading machine. `arguments`: its input; `failed`: it ended without a report."""

    arguments: Mapping[str, Any]
    ended: bool
    failed: bool


class LoadRuns(Protocol):
    """Runs of the machine that loads what is in a bucket."""

    def start(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Begin a run; the same name with the same arguments begins it once."""

    def stop(self, name: str) -> None:
        """End a run that has not ended."""

    def find(self, name: str) -> LoadRun | None:
        """Say how a run goes; None when there is none of this name, or not any more."""

    def unfinished(self) -> Mapping[str, float]:
        """Give the runs that have not ended, a hundred at most: name and epoch second of begin."""


class KnowledgeGraph(Protocol):
    """Documents, chunks, entities and relations, read only."""

    def slice(self, request: SliceRequest, scope: Scope, timeout_s: float) -> GraphSlice:
        """Alias look-up and 1-hop neighbourhood in one round trip."""

    def widen(
        self, frontier: Sequence[str], request: SliceRequest, scope: Scope, timeout_s: float
    ) -> GraphSlice:
        """One more hop around the entities of `frontier`, in one round trip."""

    def entities(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> tuple[SliceEntity, ...]:
        """Read entities by id, sorted by id; unknown ones are left out."""

    def names(
        self, ids: Sequence[str], scope: Scope, timeout_s: float
    ) -> dict[str, tuple[str, ...]]:
        """Map each known id to its preferred name followed by its synonyms."""

    def vectors(self, ids: Sequence[str], scope: Scope, timeout_s: float) -> dict[str, bytes]:
        """Map each known id to the stored vector of its name; those without one are left out."""

    def info(self, timeout_s: float) -> GraphInfo:
        """Say what the graph holds."""


class GraphWriter(Protocol):
    """The loading side of the graph: repeatable, in batches, each all or none."""

    def put_chunks(self, nodes: Sequence[ChunkNode]) -> None:
        """Write chunk nodes with their documents and topics, replacing by uuid."""

    def put_entities(self, entities: Sequence[EntityRecord]) -> None:
        """Write entities with their aliases, replacing by id."""

    def put_relations(self, relations: Sequence[RelationRecord]) -> None:
        """Write relations, replacing by (source, type, target, evidence); bare ends are made."""

    def put_mentions(self, namespace: str, mentions: Mapping[str, Sequence[MentionRecord]]) -> None:
        """Replace all mentions of each given chunk uuid; of one entity the first place is kept.

        The chunk is about an entity when one of its records says so.
        """

    def aliases(self, namespace: str) -> Iterable[tuple[str, str, bool]]:
        """Yield (folded key, entity id, is the preferred name), sorted, for the linker."""

    def labels(self, namespace: str) -> Iterable[tuple[str, str, str, str]]:
        """Yield (uuid, doc_id, title, section) of every chunk of a namespace, sorted."""

    def put_names(self, namespace: str, names: Mapping[str, str]) -> None:
        """Store the names read from chunks, by chunk uuid; `put_chunks` clears them.

        Each value is a text that only the loader reads (`loading.names.stored_names`).
        """

    def names(self, namespace: str) -> Iterable[tuple[str, str]]:
        """Yield (uuid, stored names or "") of every chunk of a namespace.

        `put_names` may be called meanwhile.
        """

    def stated(self, namespace: str, uuids: Sequence[str]) -> dict[str, set[str]]:
        """Map chunks to the ends of the relations they are evidence for, where there are any."""

    def most_mentioned(self, namespace: str, limit: int) -> tuple[SliceEntity, ...]:
        """List the entities that most chunks mention, most first, then by id."""

    def recogniser(self, namespace: str) -> str | None:
        """Say what found the names in a namespace's texts; None or "" when that is not known."""

    def note_recogniser(self, namespace: str, name: str) -> None:
        """Note what finds the names in a namespace's texts."""

    def delete(self, namespace: str, uuids: Sequence[str] | None, tidy: bool = True) -> int:
        """Remove chunks with their mentions and stated relations, then what nothing supports.

        Without `tidy` what nothing supports may stay until `close_load`: another writer of the
        same load may be about to mention it.
        """

    def close_load(self) -> None:
        """Make everything put so far readable, durably, with fresh counts."""

    def stored_nodes(self, namespace: str) -> Iterator[ChunkNode]:
        """Yield every chunk, by uuid."""

    def stored_entities(self, namespace: str) -> Iterator[EntityRecord]:
        """Yield every entity that was put, by id; bare ends follow from relations and mentions."""

    def stored_relations(self, namespace: str) -> Iterator[RelationRecord]:
        """Yield every relation, by source, type, target and evidence."""

    def stored_mentions(self, namespace: str) -> Iterator[MentionRecord]:
        """Yield every mention, by chunk and entity."""


Spans = Sequence[tuple[int, int]]
Parts = tuple[bytes, bytes]


class Embedder(Protocol):
    """Texts to unit vectors of one space."""

    @property
    def model(self) -> str:
        """Name the vector space, as the index records it."""

    @property
    def dimension(self) -> int:
        """Give the number of components."""

    def embed(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Return one float32 little-endian unit vector per passage (None: no limit, loading)."""

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Spans]) -> tuple[Parts, ...]:
        """Return, while loading, each text's vector and those of its stretches, packed.

        `parts`: per text, the stretches in code points. A model that reads the text once may take
        their vectors from that reading. See `domain.vectors.packed`.
        """


@runtime_checkable
class QuestionReader(Protocol):
    """An embedder that reads questions otherwise than passages."""

    def embed_questions(self, texts: Sequence[str], timeout_s: float | None) -> tuple[bytes, ...]:
        """Return one unit vector per question, of the space of the passages."""


def embed_questions(
    embedder: Embedder, texts: Sequence[str], timeout_s: float | None
) -> tuple[bytes, ...]:
    """Embed what is asked as its encoder reads questions."""
    if isinstance(embedder, QuestionReader):
        return embedder.embed_questions(texts, timeout_s)
    return embedder.embed(texts, timeout_s)


@runtime_checkable
class EncoderChoice(Protocol):
    """An embedder that knows others, for namespaces that were loaded with one of them."""

    def of(self, model: str) -> Embedder | None:
        """Give the encoder of a vector space, None where it is not installed."""


def encoder_of(embedder: Embedder | None, model: str | None) -> Embedder | None:
    """Give the encoder of what is stored: this one, one that it knows, or None."""
    if embedder is None or model in (None, embedder.model):
        return embedder
    return embedder.of(model) if isinstance(embedder, EncoderChoice) and model else None


class LanguageFinder(Protocol):
    """Texts to the languages they are written in."""

    def language(self, text: str) -> str:
        """Give an ISO 639-1 code, "" for English and where it cannot say."""

    def probabilities(self, text: str) -> dict[str, float]:
        """Give how likely a question is in each language that indexes know, English too."""


class NameFinder(Protocol):
    """Texts to the names of people, places and things in them; used by loads only."""

    @property
    def model(self) -> str:
        """Name the recogniser, as the graph records it."""

    def find(self, texts: Sequence[str]) -> tuple[tuple[FoundName, ...], ...]:
        """Return the names of each text, each once."""


class SparseEncoder(Protocol):
    """Texts to weighted tokens of one vocabulary."""

    @property
    def model(self) -> str:
        """Name the vocabulary and weights, as the index records them."""

    def encode(self, texts: Sequence[str], timeout_s: float | None) -> tuple[dict[str, float], ...]:
        """Return token -> weight (> 0) for passages."""

    def encode_query(self, text: str, timeout_s: float | None) -> dict[str, float]:
        """Return token -> weight (> 0) for a question."""


class Reranker(Protocol):
    """A cross-encoder."""

    @property
    def model(self) -> str:
        """Name the model."""

    def rank(self, query: str, passages: Sequence[str], timeout_s: float) -> tuple[float, ...]:
        """Return one relevance score per passage, higher is better."""


class Pair(NamedTuple):
    """A claim and the sources that it is checked against, at least one."""

    claim: str
    sources: tuple[str, ...]


class Opinion(NamedTuple):
    """Probabilities in [0, 1] that a source supports or contradicts a claim (None: not told).

    `quote`: the words of a source that decide it; counts only if a source contains them.
    """

    supported: float
    contradicted: float | None = None
    quote: str | None = None


class Verifier(Protocol):
    """A model that decides whether sources support a claim."""

    @property
    def name(self) -> str:
        """Name the verifier for responses and logs, such as `onnx:FOLDER` or `llm:MODEL`."""

    @property
    def threshold(self) -> float:
        """Return the probability at which a claim counts as supported."""

    def verify(self, pairs: Sequence[Pair], timeout_s: float) -> Sequence[Opinion | None]:
        """Return one opinion per pair, the strongest over its sources; None: cannot tell."""


def strongest(opinions: Sequence[Opinion]) -> Opinion:
    """Return the maxima over the opinions on the sources of one pair, without a quote."""
    contradicted = [one.contradicted for one in opinions if one.contradicted is not None]
    return Opinion(max(one.supported for one in opinions), max(contradicted, default=None))


class LanguageModel(Protocol):
    """A model that writes."""

    def context_tokens(self, model: str) -> int | None:
        """Say how many tokens a model reads at most; None where nobody knows."""

    def complete(  # noqa: PLR0913 - one call, told by name
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        model: str,
        temperature: float,
        max_tokens: int,
        timeout_s: float,
        schema: Mapping[str, Any] | None = None,
        told: Callable[[str], bool] | None = None,
    ) -> Completion:
        """Return one completion; `Timeout`, `QuotaExceeded` and `Unavailable` are told apart.

        `schema`: the JSON Schema that the text should keep to, as far as the provider can hold it.
        `told`: called with all that is written so far, as it comes; once it is false the call is
        closed. What was written when the time is over is a completion, too.
        """

    def price(self, model: str) -> tuple[float, float] | None:
        """Give dollars per token, in and out; None where the price is not known."""


class ReplyStore(Protocol):
    """Replies of language models to loads, by what was asked; never given up by themselves."""

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """Find what is kept."""

    def put(self, replies: Mapping[str, str]) -> None:
        """Keep replies, durably when it returns."""


class ResponseCache(Protocol):
    """Finished response bodies by scope key, with a time to live."""

    def get(self, key: str, timeout_s: float) -> tuple[str, str] | None:
        """Return (request hash, body) or None."""

    def put(self, key: str, request_hash: str, body: str, ttl_s: int, timeout_s: float) -> None:
        """Keep a body."""


class TraceSink(Protocol):
    """Where retrieval traces go."""

    def send(self, message: TraceMessage, timeout_s: float) -> None:
        """Hand one message over, or raise in time."""


class TraceStore(Protocol):
    """Where recorded traces live."""

    def write(self, messages: Sequence[TraceMessage], timeout_s: float) -> None:
        """Write all messages or none; again changes nothing."""

    def read(self, request_id: str, timeout_s: float) -> TraceMessage | None:
        """Return the trace of a request, lists by rank or falling score; None if there is none."""

    def remove_before(self, epoch_ms: int, timeout_s: float) -> int:
        """Remove traces older than a time; count them."""


class TokenVerifier(Protocol):
    """Who a bearer token names."""

    def caller(self, token: str) -> Caller | None:
        """Give the caller, None when the token is not valid; `Unavailable` without keys."""


class CallCounter(Protocol):
    """Counts that all processes of a deployment share."""

    def add(self, key: str, ttl_s: int, timeout_s: float) -> int:
        """Add one to a count that is kept for `ttl_s` seconds; the new count."""


class Workflow(Protocol):
    """The state machine, or the function behind a route that is none, wherever it runs."""

    def run(self, envelope: Envelope) -> Reply:
        """Run it once to its reply."""


class PieceCounter(Protocol):
    """The word pieces of the encoder, to cut documents where it stops reading."""

    def starts(self, text: str) -> Sequence[int]:
        """List where the pieces of a text begin, ascending, in code points."""


class Converter(Protocol):
    """Document formats, made text with headings, paragraphs, lists, tables and pages."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Map each suffix it reads to the name and version of what reads it."""

    def convert(self, suffix: str, raw: bytes) -> tuple[Outline, ...]:
        """Read one file, mostly one document; `LoadError` says why it cannot be read.

        The text of `.md`, `.txt` and `.rst` is the decoded file; of others, what was made of it.
        """
