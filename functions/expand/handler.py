"""Entry point: expansion and routing."""

from docstokg.contracts import Json
from docstokg.contracts.state import Expansion, Restriction, Retrieval
from docstokg.entry import entry_point
from docstokg.usecases.domains import domain_of
from docstokg.usecases.run import Run
from docstokg.wiring import Handler, Wiring
from docstokg_functions.expand.domain_seeds import widen_seeds
from docstokg_functions.expand.expand import expand
from docstokg_functions.expand.restrict import restrict


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    graph = wiring.knowledge_graph()
    domain = domain_of(wiring.settings.domains)

    def handler(event: Json, context: object) -> Json:
        run = Run.of(event, wiring.telemetry)
        result: Expansion | Restriction
        if event.get("mode") == "route":
            result = restrict(run, graph=graph, domain=domain)
        else:
            widen_seeds(run, graph=graph, domain=domain)
            retrieval = Retrieval.model_validate(event["retrieval"])
            result = expand(run, retrieval, graph=graph, domain=domain)
        return result.model_dump(mode="json", exclude_defaults=True)

    return handler


__getattr__ = entry_point(build, globals())
