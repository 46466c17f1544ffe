"""A load's ports, from whoever makes ports: the wiring of a laptop's command, or of a function."""

from collections.abc import Callable
from typing import Protocol

from docstokg.loading.context import Readers, Stores
from docstokg.ports import (
    Converter,
    DocumentRegister,
    Embedder,
    GraphWriter,
    IndexWriter,
    KnowledgeGraph,
    LanguageFinder,
    NameFinder,
    PieceCounter,
    SearchIndex,
    SparseEncoder,
)


class Ports(Protocol):
    """Makes ports, each once."""

    def search_index(self) -> SearchIndex:
        """Give the reading side of the index."""

    def index_writer(self) -> IndexWriter:
        """Give the loading side of the index."""

    def knowledge_graph(self) -> KnowledgeGraph:
        """Give the reading side of the graph."""

    def graph_writer(self) -> GraphWriter:
        """Give the loading side of the graph."""

    def register(self) -> DocumentRegister:
        """Give the register of documents."""

    def converter(self) -> Converter:
        """Give the converter of document formats."""

    def piece_counter(self) -> PieceCounter:
        """Give the encoder's word pieces."""

    def embedder(self) -> Embedder | None:
        """Give the embedder, if one is installed or configured."""

    def sparse_encoder(self) -> SparseEncoder | None:
        """Give the learned sparse encoder, if it is installed."""

    def names(self) -> NameFinder | None:
        """Give what finds names, if it is installed."""

    def multilingual(self) -> Callable[[], Embedder] | None:
        """Give what makes the encoder of other languages, where none was asked for by name."""

    def languages(self) -> LanguageFinder | None:
        """Give what tells languages apart, if it is installed."""


def stores_of(ports: Ports, embed: bool = True) -> Stores:
    """Give both stores' readers and writers, and the encoders unless `embed` is false."""
    return Stores(
        search_index=ports.search_index(),
        index_writer=ports.index_writer(),
        knowledge_graph=ports.knowledge_graph(),
        graph_writer=ports.graph_writer(),
        register=ports.register(),
        readers=readers_of(ports),
        embedder=ports.embedder() if embed else None,
        sparse_encoder=ports.sparse_encoder() if embed else None,
        names=ports.names(),
        languages=ports.languages(),
        multilingual=ports.multilingual() if embed else None,
    )


def readers_of(ports: Ports) -> Readers:
    """Give what reads documents."""
    return Readers(converter=ports.converter(), pieces=ports.piece_counter())
