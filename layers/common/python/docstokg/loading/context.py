"""State and ports of a load."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Never, Protocol

from docstokg import ports
from docstokg.contracts.records import Scope
from docstokg.domain.deadline import Deadline
from docstokg.errors import Unavailable
from docstokg.loading.read.raw_input import RawRecord
from docstokg.loading.read.rejects import Rejected, RejectLog
from docstokg.loading.read.source_registry import SourceRegistry
from docstokg.loading.read.sources import SourceFile
from docstokg.loading.read.staging import Staging

CHUNK_BATCH = 128
ROW_BATCH = 500
READ_S = 60.0
# Seconds that a load or removal waits for another one into its namespace.
WAIT_S = 3600.0


class Progress(Protocol):
    """Receives the progress of a load."""

    def stage(self, title: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Start a stage of `total` steps (None: unknown); its function adds finished steps."""


class NullProgress:
    """Progress without output."""

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Start a stage whose steps are not counted."""
        yield lambda steps: None


class LoadOptions(NamedTuple):
    """Options of a load.

    `prefix`: of every doc_id made from a path. `sync`: remove deleted documents of these folders;
    `agree` is called with their ids before many are removed. `extract`: stages the triples of a
    language model. `run_id`: ULID. `rebuild`: compute all names and mentions again. `remove`: ids
    of documents to remove; those not visible to `groups` (None: all) are rejected, and missing ones
    too unless `again`. `wait_s`: for another load into the namespace.
    """

    namespace: str = "default"
    embed: bool = True
    replace_docs: bool = False
    prefix: str = ""
    sync: bool = False
    agree: Callable[[Sequence[str]], bool] = lambda doc_ids: False
    extract: "Callable[[Context], ExtractionReport] | None" = None
    run_id: str = ""
    rebuild: bool = False
    remove: Sequence[str] = ()
    groups: Sequence[str] | None = None
    again: bool = False
    wait_s: float = WAIT_S


@dataclass(slots=True)
class TypeCount:
    """Counts per file type; `rejected`: files with a reject."""

    files: int = 0
    rejected: int = 0
    skipped: int = 0
    chunks: int = 0


@dataclass(slots=True)
class ExtractionReport:
    """Counts of an extraction."""

    model: str
    chunks: int = 0
    requests: int = 0
    failed: int = 0
    restricted: int = 0
    triples: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0


@dataclass(slots=True)
class LoadReport:
    """Results of a load."""

    run_id: str
    files: int = 0
    chunks: int = 0
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    gone: int = 0
    kept_back: list[str] = field(default_factory=list)
    entities: int = 0
    mentions: int = 0
    relations: int = 0
    relinked: int = 0
    rejected: int = 0
    embedding_model: str | None = None
    sparse_model: str | None = None
    names_by: str | None = None
    extraction: ExtractionReport | None = None
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)
    types: dict[str, TypeCount] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


Rows = Sequence[tuple[int, RawRecord | Rejected]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The converter, and the piece counter that determines where texts are cut.

    `several`: reads many documents in parallel and yields their rows in file order. `settings`: of
    the models for which the texts are cut.
    """

    converter: ports.Converter
    pieces: ports.PieceCounter
    several: Callable[[Sequence[SourceFile]], Iterable[tuple[SourceFile, Rows]]] | None = None
    settings: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The ports of a load.

    Without `names`, a rule finds names; without `languages`, every text counts as English.
    """

    search_index: ports.SearchIndex
    index_writer: ports.IndexWriter
    knowledge_graph: ports.KnowledgeGraph
    graph_writer: ports.GraphWriter
    register: ports.DocumentRegister
    readers: Readers
    embedder: ports.Embedder | None = None
    sparse_encoder: ports.SparseEncoder | None = None
    names: ports.NameFinder | None = None
    languages: ports.LanguageFinder | None = None
    multilingual: Callable[[], ports.Embedder] | None = None


@dataclass
class RecordedModel:
    """A missing encoder or recogniser whose output is recorded; other texts are `Unavailable`.

    Other names have no vector.
    """

    model: str
    dimension: int = 0

    def embed(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[bytes, ...]:
        """Return an empty vector per name."""
        return (b"",) * len(texts)

    def find(self, *_: Any, **__: Any) -> Never:
        """Raise `Unavailable`."""
        raise Unavailable(
            f"chunks without recorded output require the model {self.model!r}, which is not"
            " installed here; load once with `docstokg load` where it is"
        )

    embed_parts = encode = encode_query = find


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """State of one load.

    `model`, `dimension`: the vector space it writes. `earlier`: ids of documents that the stores
    may contain, None if unknown. `generation`: see `DocumentChange`. `is_new`: the namespace has no
    encoder yet. `is_unfinished`: its previous load did not end.
    """

    options: LoadOptions
    stores: Stores
    staging: Staging
    registry: SourceRegistry
    rejects: RejectLog
    progress: Progress
    report: LoadReport
    model: str | None
    dimension: int | None
    dense: ports.Embedder | None
    sparse: ports.SparseEncoder | None
    earlier: Set[str] | None = None
    generation: str = ""
    is_new: bool = False
    is_unfinished: bool = False

    @property
    def namespace(self) -> str:
        """Return the namespace that the load writes."""
        return self.options.namespace

    @property
    def scope(self) -> Scope:
        """Return the scope of the whole namespace."""
        return Scope(namespace=self.namespace)
