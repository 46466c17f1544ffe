"""Entry point: stage `read`."""

from docstokg.entry import entry_point
from docstokg.loading.run.stages import read
from docstokg.loading.stores import readers_of
from docstokg.wiring import Handler, Wiring
from docstokg_functions.ingest import staged


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    objects, readers = wiring.object_store(), readers_of(wiring)
    return staged(lambda task, _: read(task, objects, readers))


__getattr__ = entry_point(build, globals())
