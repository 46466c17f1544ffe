"""Entry point: stage `encode`."""

from docstokg.entry import entry_point
from docstokg.loading.run.stages import encode
from docstokg.wiring import Handler, Wiring
from docstokg_functions.ingest import staged


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    objects, dense, sparse = wiring.object_store(), wiring.embedder(), wiring.sparse_encoder()
    return staged(lambda task, _: encode(task, objects, dense, sparse))


__getattr__ = entry_point(build, globals())
