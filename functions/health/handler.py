"""Entry point of `GET /v1/health`."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from docstokg.wiring import Handler, Wiring, entry_point
from functions.health.health import Check, health


def build(wiring: Wiring) -> Handler:
    """Make the handler; models count as up when they are installed and configured."""
    workers = ThreadPoolExecutor(max_workers=8, thread_name_prefix="health")
    index, graph = wiring.search_index(), wiring.knowledge_graph()
    checks: dict[str, Check | None] = {
        "index": index.info,
        "graph": graph.info if wiring.settings.kg_enabled else None,
    }

    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        return health(checks, workers, wiring.telemetry).model_dump(mode="json")

    return handler


def __getattr__(name: str) -> Handler:
    return entry_point(name, build, globals())
