"""Default namespace, and cached responses."""

import json
from collections.abc import Callable, Sequence

from docstokg.contracts import compact_json
from docstokg.contracts.chat import MODEL_NOT_FOUND, NOT_FOUND_DETAIL
from docstokg.contracts.envelope import Caller, Reply
from docstokg.contracts.state import Failure, Recalled
from docstokg.domain import time_budget
from docstokg.domain.deadline import Deadline
from docstokg.domain.identity import text_sha256
from docstokg.errors import DocsToKGError
from docstokg.ports import ResponseCache, SearchIndex
from docstokg.usecases.run import Run


def recall(
    run: Run,
    *,
    index: SearchIndex,
    response_cache: Callable[[], ResponseCache],
    stores: Sequence[str],
) -> Recalled:
    """Return the namespace with the cached reply, a failure, or the place for the new response.

    A failure: a namespace must be named (400), or the cache key is reused (409). The key includes
    the caller with groups, namespaces, `stores` and the index's last completed load. During a load
    into the namespaces the cache is not used.
    """
    plan, namespace = run.plan, _namespace(run, index)
    if isinstance(namespace, Failure):
        return Recalled(namespace=plan.namespace, failure=namespace)
    none = Recalled(namespace=namespace)
    if plan.cache is None:
        return none
    names = (namespace, *plan.others)
    generation = run.attempt(
        "generation", lambda: index.generation(names, Deadline.after(time_budget.CACHE_S)), None
    )
    if generation is None:
        return none
    key = text_sha256(json.dumps([plan.cache.key, names, *stores, generation]))
    place = plan.cache.model_copy(update={"key": key})
    try:
        entry = response_cache().get(place.key, Deadline.after(time_budget.CACHE_S))
    except DocsToKGError as exc:
        run.log("cache", exc)
        return none
    run.telemetry.count("rag_cache_hits_total", hit=str(entry is not None).lower())
    if entry is None:
        return none.model_copy(update={"cache": place})
    request_hash, body = entry
    if request_hash != place.request_hash:
        detail = "This cache_key was used for another request; choose a new one."
        reused = Failure(status=409, code="cache_key_reused", detail=detail)
        return Recalled(namespace=namespace, failure=reused)
    response = json.loads(body)
    if response.get("diagnostics") is not None:
        response["diagnostics"]["cache_hit"] = True
    text = compact_json(response)
    run.finish(200, cache_hit=True, total_ms=run.total_ms())
    return Recalled(namespace=namespace, reply=Reply(statusCode=200, body=text))


def _namespace(run: Run, index: SearchIndex) -> str | Failure:
    """Return the namespace; a chat's failure is 404 if it names one without passages."""
    plan = run.plan
    if plan.choices:
        caller = Caller(sub=plan.caller_sub, namespaces=plan.choices)
        return run.chosen_namespace(caller, index)
    if plan.chat and plan.chat.namespaces:
        deadline = run.deadline.limit(time_budget.NAMESPACE_S)
        stored = run.attempt("namespaces", lambda: index.info(deadline).namespaces, None)
        if stored is not None and not set(plan.chat.namespaces) <= set(stored):
            return Failure(status=404, code=MODEL_NOT_FOUND, detail=NOT_FOUND_DETAIL)
    return plan.namespace
