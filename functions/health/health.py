"""Parallel health checks."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from concurrent.futures import TimeoutError as NotYet
from typing import Literal

from docstokg import __version__
from docstokg.contracts.envelope import Reply
from docstokg.contracts.health import DependencyHealth, Health
from docstokg.domain import time_budget
from docstokg.domain.deadline import Deadline
from docstokg.errors import CircuitOpen, DocsToKGError, cause
from docstokg.observability import Telemetry
from docstokg.usecases.problems import json_reply

ESSENTIAL = "index"

Check = Callable[[Deadline], object]


def health(checks: Mapping[str, Check | None], workers: Executor, telemetry: Telemetry) -> Reply:
    """Return 200 ok or degraded, or 503 down if the index is not up.

    `checks`: dependency -> a call with a deadline, or None if it is off.
    """
    deadline = Deadline.after(time_budget.HEALTH_S + time_budget.HEALTH_GRACE_S)
    answers = {
        name: workers.submit(_check_health, name, check, telemetry)
        for name, check in checks.items()
        if check
    }
    states = {}
    for name in checks:
        if name not in answers:
            states[name] = DependencyHealth(state="off")
            continue
        try:
            states[name] = answers[name].result(timeout=deadline.remaining())
        except NotYet:
            telemetry.log("WARNING", "health_check_late", dependency=name)
            states[name] = DependencyHealth(state="down", ms=time_budget.HEALTH_S * 1000)
    status: Literal["ok", "degraded", "down"] = "ok"
    if any(state.state in ("down", "open") for state in states.values()):
        status = "down" if states[ESSENTIAL].state != "up" else "degraded"
    body = Health(status=status, version=__version__, dependencies=states)
    return json_reply(body, 503 if status == "down" else 200, **{"Cache-Control": "no-store"})


def _check_health(name: str, check: Check, telemetry: Telemetry) -> DependencyHealth:
    started = time.perf_counter()
    state: Literal["up", "down", "open"] = "up"
    try:
        check(Deadline.after(time_budget.HEALTH_S))
    except DocsToKGError as error:
        state = "open" if isinstance(error, CircuitOpen) else "down"
        telemetry.log("WARNING", "health_check_failed", dependency=name, **cause(error))
    return DependencyHealth(state=state, ms=round((time.perf_counter() - started) * 1000, 2))
