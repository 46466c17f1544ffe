"""Entry point: stage `write`."""

from docstokg.entry import entry_point
from docstokg.loading.run.resolved import ResolverCache
from docstokg.loading.run.stages import write
from docstokg.loading.stores import stores_of
from docstokg.wiring import Handler, Wiring
from docstokg_functions.ingest import staged


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    objects, stores, resolvers = wiring.object_store(), stores_of(wiring), ResolverCache()
    return staged(lambda task, _: write(task, objects, stores, resolvers))


__getattr__ = entry_point(build, globals())
