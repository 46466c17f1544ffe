"""The ports of the stages that write, taken from the one place that makes them."""

from docstokg.loading.context import Readers, Stores
from docstokg.wiring import Wiring


def readers_of(wiring: Wiring) -> Readers:
    """Give what reads documents."""
    return Readers(converter=wiring.converter(), pieces=wiring.piece_counter())


def stores_of(wiring: Wiring, embed: bool = True) -> Stores:
    """Give both stores' readers and writers, and the encoders unless `embed` is false."""
    return Stores(
        search_index=wiring.search_index(),
        index_writer=wiring.index_writer(),
        knowledge_graph=wiring.knowledge_graph(),
        graph_writer=wiring.graph_writer(),
        register=wiring.register(),
        readers=readers_of(wiring),
        embedder=wiring.embedder() if embed else None,
        sparse_encoder=wiring.sparse_encoder() if embed else None,
        names=wiring.names(),
    )
