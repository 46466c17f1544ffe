"""Ports of a load."""

from collections.abc import Callable
from typing import Protocol

from docstokg import ports
from docstokg.loading.context import Readers, Stores


class LoadPorts(Protocol):
    """Provides the ports of a load; `None`: not installed."""

    def converter(self) -> ports.Converter:
        """Return the converter."""

    def piece_counter(self) -> ports.PieceCounter:
        """Return the counter of the encoder's pieces."""

    def model_settings(self) -> tuple[str, ...]:
        """Return the settings that choose a load's models."""

    def search_index(self) -> ports.SearchIndex:
        """Return the index."""

    def index_writer(self) -> ports.IndexWriter:
        """Return its loading side."""

    def knowledge_graph(self) -> ports.KnowledgeGraph:
        """Return the graph."""

    def graph_writer(self) -> ports.GraphWriter:
        """Return its loading side."""

    def register(self) -> ports.DocumentRegister:
        """Return the register of documents."""

    def embedder(self) -> ports.Embedder | None:
        """Return the dense encoder."""

    def sparse_encoder(self) -> ports.SparseEncoder | None:
        """Return the sparse encoder."""

    def names(self) -> ports.NameFinder | None:
        """Return the recogniser of names."""

    def languages(self) -> ports.LanguageFinder | None:
        """Return the recogniser of languages."""

    def multilingual(self) -> Callable[[], ports.Embedder] | None:
        """Return the factory of the multilingual encoder."""


def stores_of(provider: LoadPorts, embed: bool = True) -> Stores:
    """Return all ports of a load, without encoders if `embed` is false."""
    return Stores(
        search_index=provider.search_index(),
        index_writer=provider.index_writer(),
        knowledge_graph=provider.knowledge_graph(),
        graph_writer=provider.graph_writer(),
        register=provider.register(),
        readers=readers_of(provider),
        embedder=provider.embedder() if embed else None,
        sparse_encoder=provider.sparse_encoder() if embed else None,
        names=provider.names(),
        languages=provider.languages(),
        multilingual=provider.multilingual() if embed else None,
    )


def readers_of(provider: LoadPorts) -> Readers:
    """Return the readers of documents."""
    return Readers(
        converter=provider.converter(),
        pieces=provider.piece_counter(),
        settings=provider.model_settings(),
    )
