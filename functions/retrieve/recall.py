"""Cached responses."""

import hashlib
import json
from collections.abc import Callable, Sequence

from docstokg.contracts.envelope import Reply
from docstokg.contracts.state import Recalled
from docstokg.domain import time_budget
from docstokg.errors import DocsToKGError
from docstokg.ports import ResponseCache, SearchIndex
from docstokg.usecases.problems import problem_reply
from docstokg.usecases.run import Run


def recall(
    run: Run,
    *,
    index: SearchIndex,
    response_cache: Callable[[], ResponseCache],
    stores: Sequence[str],
) -> Recalled:
    """Return the cached reply, a 409 for a reused key, or the place for the new response.

    The key includes the caller with groups, `stores` and the last completed load. During a load the
    cache is not used.
    """
    plan = run.plan
    if plan.cache is None:
        return Recalled()
    generation = run.attempt("generation", lambda: index.generation(time_budget.CACHE_S), None)
    if generation is None:
        return Recalled()
    place = plan.cache.model_copy(
        update={"key": _digest(json.dumps([plan.cache.key, *stores, generation]))}
    )
    try:
        entry = response_cache().get(place.key, time_budget.CACHE_S)
    except DocsToKGError as exc:
        run.log("cache", exc)
        return Recalled()
    run.telemetry.count("rag_cache_hits_total", hit=str(entry is not None).lower())
    if entry is None:
        return Recalled(cache=place)
    request_hash, body = entry
    if request_hash != place.request_hash:
        detail = "This cache_key was used for another request; choose a new one."
        refused = problem_reply(409, "cache_key_reused", detail, plan.request_id)
        run.telemetry.count("rag_requests_total", route=plan.route, status="409")
        run.telemetry.count("rag_refused_requests_total", code="cache_key_reused")
        run.telemetry.log(
            "INFO", "refused", request_id=plan.request_id, status=409, code="cache_key_reused"
        )
        return Recalled(reply=refused)
    response = json.loads(body)
    if response.get("diagnostics") is not None:
        response["diagnostics"]["cache_hit"] = True
    text = json.dumps(response, ensure_ascii=False, separators=(",", ":"))
    run.finish(200, cache_hit=True, total_ms=run.total_ms())
    return Recalled(reply=Reply(statusCode=200, body=text))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
