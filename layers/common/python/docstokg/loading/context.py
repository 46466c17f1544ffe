"""What every step of a load shares: ports, the staging area, and where it reports to."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from docstokg import ports
from docstokg.contracts.records import Scope
from docstokg.loading.read.raw_input import RawRecord
from docstokg.loading.read.rejects import Rejected, RejectLog
from docstokg.loading.read.sources import SourceFile
from docstokg.loading.read.staging import Staging

CHUNK_BATCH = 128
ROW_BATCH = 500
READ_S = 60.0


class Progress(Protocol):
    """Where a load says how far it is."""

    def stage(self, title: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Begin a stage of `total` steps; call the result with the steps done since."""


class NullProgress:
    """Progress that is shown nowhere."""

    @contextmanager
    def stage(self, title: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Begin a stage whose steps are not counted."""
        yield lambda steps: None


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load: `embed` false runs no encoder, `replace_docs` replaces whole documents.

    `prefix`: before every doc_id that is made from a path. `sync` removes the documents of these
    folders that are gone; `agree` is shown those before many go, and says whether they may.
    `extract`: stages what a language model reads in the staged chunks (`loading.names.extraction`).
    `run_id`: a ULID that names the load; a new one by default. `rebuild`: compute the names and
    mentions of every stored chunk again. `remove`: ids of documents to remove; those that `groups`
    (None: all) may not see are rejected, and missing ones unless it is done `again`.
    """

    namespace: str = "default"
    embed: bool = True
    replace_docs: bool = False
    prefix: str = ""
    sync: bool = False
    agree: Callable[[Sequence[str]], bool] = lambda gone: False
    extract: "Callable[[Context], ExtractionReport] | None" = None
    run_id: str = ""
    rebuild: bool = False
    remove: Sequence[str] = ()
    groups: Sequence[str] | None = None
    again: bool = False


@dataclass(slots=True)
class TypeCount:
    """How a type of files fared: found, with a reject, skipped, and chunks read from them."""

    files: int = 0
    rejected: int = 0
    skipped: int = 0
    chunks: int = 0


@dataclass(slots=True)
class ExtractionReport:
    """What came of it: chunks read, of those asked now, and failed; triples, and those refused."""

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
    """What a load did."""

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
    """What reads documents: the converter, and the pieces the encoder cuts texts into.

    `several`: reads many documents at once and gives their rows in the order of the files.
    """

    converter: ports.Converter
    pieces: ports.PieceCounter
    several: Callable[[Sequence[SourceFile]], Iterable[tuple[SourceFile, Rows]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The ports a load needs; without `names` a rule finds the names in texts.

    Without `languages` every text counts as English. `multilingual`: raises `Misconfigured` with
    what to install.
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


class Encoding(NamedTuple):
    """Output of the encoders for a chunk: its vector, those of its sentences, and its weights."""

    vector: bytes | None
    sentences: bytes
    weights: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One load.

    `model`, `dimension`: the vector space it writes. `dense`, `sparse`: what encodes here, or None.
    `replace_docs`: documents are replaced whole. `earlier`: the documents the stores may hold
    already, None when that is not known. `generation`: see `DocumentChange`.
    `is_new`: the namespace has no encoder yet. `recorded`: encodings by chunk id, where an earlier
    task made them.
    """

    namespace: str
    stores: Stores
    staging: Staging
    rejects: RejectLog
    progress: Progress
    report: LoadReport
    model: str | None
    dimension: int | None
    dense: ports.Embedder | None
    sparse: ports.SparseEncoder | None
    replace_docs: bool = False
    earlier: Set[str] | None = None
    generation: str = ""
    is_new: bool = False
    recorded: Mapping[str, Encoding] | None = None

    @property
    def scope(self) -> Scope:
        """See everything of the namespace."""
        return Scope(namespace=self.namespace)
