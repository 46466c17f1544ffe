"""A plan as `validate` makes it and a call with its log, for tests of one step."""

import math
from typing import Any

from docstokg.contracts.records import Scope
from docstokg.contracts.response import BudgetLimits
from docstokg.contracts.state import ExpansionPlan, Plan, RetrievalPlan
from docstokg.domain.deadline import Deadline
from docstokg.observability import Telemetry
from docstokg.usecases.run import Call


def logging(log: list[str] | None = None) -> Telemetry:
    """Return telemetry that appends its lines to `log`, or drops them."""
    return Telemetry(write=[].append if log is None else log.append)


def call(log: list[str] | None = None, **fields: Any) -> Call:
    """Return a call without a deadline in the namespace `default`, unless they are given."""
    usual = {"request_id": "r", "deadline": Deadline(math.inf), "scope": Scope(namespace="default")}
    return Call(**{**usual, **fields}, telemetry=logging(log))


def plan(query: str = "What is it?", **fields: Any) -> Plan:
    """Without a deadline that matters and without expansion, unless they are given."""
    limits = BudgetLimits(max_chunks=48, max_tokens_context=8000, max_tokens_gen=0, timeout_s=5.0)
    usual = {
        **{"request_id": "r", "route": "answer", "caller_sub": "s", "namespace": "default"},
        **{"groups": None, "top_k": 2, "started_ms": 0, "deadline_ms": 2**52},
        "retrieval": RetrievalPlan(channels={}, time_s=1.0),
        "expansion": ExpansionPlan(enabled=False, time_s=1.0),
        **{"verbosity": "snippet", "snippet_chars": 200, "diagnostics": True},
        "budget_limits": limits,
    }
    return Plan.model_validate({**usual, "query": query, **fields})


def soon() -> Deadline:
    """Return a deadline that a working store meets on a busy machine."""
    return Deadline.after(30.0)
