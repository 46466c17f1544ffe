"""Ports of a load."""

from typing import Any

from docstokg.loading.context import Readers, Stores


def stores_of(ports: Any, embed: bool = True) -> Stores:
    """Return all ports of a load, without encoders if `embed` is false."""
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


def readers_of(ports: Any) -> Readers:
    """Return the readers of documents."""
    return Readers(converter=ports.converter(), pieces=ports.piece_counter())
