"""A plan as `validate` makes it, for tests of one step."""

from typing import Any

from docstokg.contracts.response import BudgetLimits
from docstokg.contracts.state import ExpansionPlan, Plan, RetrievalPlan


def plan(query: str = "What is it?", **given: Any) -> Plan:
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
    return Plan.model_validate({**usual, "query": query, **given})
