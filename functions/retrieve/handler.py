"""Entry point of retrieval."""

from concurrent.futures import ThreadPoolExecutor

from docstokg.contracts import Json
from docstokg.contracts.state import Restriction
from docstokg.entry import entry_point
from docstokg.usecases.run import Run
from docstokg.wiring import Handler, Wiring
from docstokg_functions.retrieve.recall import recall
from docstokg_functions.retrieve.retrieve import retrieve


def build(wiring: Wiring) -> Handler:
    """Return the handler."""
    chosen = wiring.settings
    stores = (chosen.index_url, chosen.index_name, chosen.graph_url)
    index = wiring.search_index()
    embedder, sparse_encoder = wiring.embedder(), wiring.sparse_encoder()
    languages = wiring.question_languages()
    workers = ThreadPoolExecutor(4, thread_name_prefix="embed")

    def handler(event: Json, context: object) -> Json:
        run = Run.of(event, wiring.telemetry)
        if event.get("mode") == "recall":
            recalled = recall(run, index=index, response_cache=wiring.response_cache, stores=stores)
            return recalled.model_dump(mode="json")
        restriction = event.get("restriction")
        retrieval = retrieve(
            run,
            Restriction.model_validate(restriction) if restriction is not None else None,
            index=index,
            embedder=embedder,
            sparse_encoder=sparse_encoder,
            workers=workers,
            languages=languages,
        )
        return retrieval.model_dump(mode="json", exclude_defaults=True)

    return handler


__getattr__ = entry_point(build, globals())
