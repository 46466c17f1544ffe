"""Entry point of `GET /v1/health`."""

import math
import time
from concurrent.futures import ThreadPoolExecutor

from docstokg.contracts import Json
from docstokg.entry import entry_point
from docstokg.wiring import Handler, Wiring
from docstokg_functions.health.health import Check, health

KEPT_S = 10.0


def build(wiring: Wiring) -> Handler:
    """Return the handler; deployed, its result is cached for KEPT_S seconds."""
    keep_s = KEPT_S if wiring.settings.environment else 0.0
    workers = ThreadPoolExecutor(8, thread_name_prefix="health")
    index, graph = wiring.search_index(), wiring.knowledge_graph()
    checks: dict[str, Check | None] = {
        "index": index.info,
        "graph": graph.info if wiring.settings.kg_enabled else None,
    }

    snapshot: Json = {}
    kept_until = -math.inf

    def handler(event: Json, context: object) -> Json:
        nonlocal snapshot, kept_until
        if time.monotonic() >= kept_until:
            snapshot = health(checks, workers, wiring.telemetry).model_dump(mode="json")
            kept_until = time.monotonic() + keep_s
        return snapshot

    return handler


__getattr__ = entry_point(build, globals())
