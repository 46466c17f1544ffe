"""A load's ports, taken from the one place that makes them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from docstokg.adapters.onnx_minilm import OnnxMiniLm
from docstokg.adapters.vector_cache import CachedEmbedder
from docstokg.loading.context import Stores
from docstokg.loading.stores import stores_of as ports_of
from docstokg.ports import Embedder
from docstokg.wiring import Wiring

THREADS = 2
"""Of the local encoder in a load that has the machine to itself: batches are worth sharing."""


def stores_of(wiring: Wiring, embed: bool = True) -> Stores:
    """Give a load's ports, as the stages have them; the encoder shares this machine's threads."""
    stores = ports_of(wiring, embed)
    return replace(stores, embedder=_sharing(stores.embedder, wiring))


def _sharing(embedder: Embedder | None, wiring: Wiring) -> Embedder | None:
    """Give the embedder of requests, with more threads where it computes in this process."""
    if isinstance(embedder, CachedEmbedder) and isinstance(embedder.inner, OnnxMiniLm):
        return CachedEmbedder(embedder.inner.with_threads(THREADS), wiring.cache_folder())
    return embedder


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
