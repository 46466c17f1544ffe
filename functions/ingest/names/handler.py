"""Entry point: stage `names`."""

from docstokg.entry import entry_point
from docstokg.loading.run.stages import names
from docstokg.wiring import Handler, Wiring
from docstokg_functions.ingest import staged


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    objects, finder = wiring.object_store(), wiring.names()
    return staged(lambda task, _: names(task, objects, finder))


__getattr__ = entry_point(build, globals())
