"""A load's ports, taken from the one place that makes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from docstokg.loading.context import Readers, Stores
from docstokg.wiring import Wiring


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


def readers_of(wiring: Wiring) -> Readers:
    """Give what reads documents."""
    return Readers(converter=wiring.converter(), pieces=wiring.piece_counter())


@contextmanager
def stores_with_workers(wiring: Wiring, embed: bool, workers: int) -> Iterator[Stores]:
    """Give a load's ports, of which `workers` processes read, encode and find names."""
    if workers <= 1:
        yield stores_of(wiring, embed)
        return
    from docstokg_local.load_workers import Workers

    crew = Workers(wiring.settings, workers)
    try:
        crew.give_to(wiring)
        stores = stores_of(wiring, embed)
        yield replace(stores, readers=replace(stores.readers, several=crew.read))
    finally:
        crew.close()
