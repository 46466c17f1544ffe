"""Time limits.

They fire in this order: a call's share of the deadline, its client, the function, the state (whole
seconds; infra adds a cold start), the execution, the route.
"""

from typing import NamedTuple


class CallBudget(NamedTuple):
    """Seconds for one call: at most `cap_s`, leaving `reserve_s` for later steps."""

    cap_s: float
    reserve_s: float = 0.0


class TimeShare(NamedTuple):
    """Share of a request's time for one call, from `least_s` to `most_s` seconds."""

    share: float
    least_s: float
    most_s: float
    reserve_s: float

    def of(self, request_s: float) -> CallBudget:
        """Return the budget of a call in a request of `request_s` seconds."""
        cap_s = min(self.most_s, max(self.least_s, self.share * request_s))
        return CallBudget(cap_s, self.reserve_s)


class Timeouts(NamedTuple):
    """Timeouts of a state and its function, in whole seconds.

    `state_s` None: the function has no state, or the state computes its own timeout.
    """

    state_s: int | None
    function_s: int


CONDENSE = TimeShare(0.15, 1.5, 9.0, 2.5)
RETRIEVE = CallBudget(3.0, 0.25)
# Maximum seconds of the question embedding for one round trip with the word channels.
VECTOR_HEAD_START_S = 0.025
EXPAND = CallBudget(1.5, 0.3)
HYDRATE = CallBudget(3.0, 0.15)
RERANK = CallBudget(1.5, 0.4)
SENTENCES = CallBudget(0.5, 0.4)
GRAPH_VIEW = CallBudget(2.0, 0.5)
SYNTHESIZE = CallBudget(float("inf"), 0.3)
CHECK_ANSWER = CallBudget(0.5, 0.05)
VERIFY = TimeShare(0.25, 3.0, 15.0, 0.3)
# Seconds reserved for the verifier if less than `VERIFY.least_s` plus this is left.
VERIFY_LATE_S = 1.0
CONSISTENCY = CallBudget(0.5, 0.05)
FULL_TEXT = CallBudget(1.0, 0.05)
# Seconds left if the graph call used all its time; the cause is then the deadline, not the index.
LEAST_HYDRATE_S = EXPAND.reserve_s - HYDRATE.reserve_s
# Minimum seconds for a call to a graph.
LEAST_CALL_S = 0.005
LEAST_MODEL_S = 0.25
# Minimum seconds for a call to a language model, and for a fallback model after a failure.
LEAST_FALLBACK_S = 3.0
# Reserved for an extractive answer if it replaces a failed model's.
EXTRACT_S = 0.2
# For the logits of the reader; candidates without one keep their score.
READER_S = 5.0
# For the question vector of a walk; without it, words are used for scoring.
WALK_QUERY_S = 0.5
CACHE_S = 0.25
# For listing the namespaces, if a request names none.
NAMESPACE_S = 1.0
TRACE_S = 0.05
COUNTER_S = 0.05

TRAVERSE_S = 2.0
# For `/v1/check` as a whole, including its graph and vector calls.
CHECK_S = 10.0
CHECK_GRAPH = CallBudget(1.5)
# Reserved for consistency and the reply.
CHECK_REPLY_S = 1.0
CHECK_VECTORS = CallBudget(1.0)
# For checking an answer beyond the vectors' time; unchecked statements are `too_long`.
WORDS_S = 1.0

# For reading a passage with its neighbours: two round trips.
PASSAGE_S = 3.0
HEALTH_S = 1.0
# For a health check to report its own timeout.
HEALTH_GRACE_S = 0.2
WRITE_TRACES_S = 10.0
REMOVE_TRACES_S = 20.0

LONGEST_DEADLINE_S = 25.0
EXECUTION_S = 27
ROUTE_S = 29

# By lower-case state, which is also the function's name, except: `route` is the function expand,
# `recall` is retrieve, `condense` is synthesize.
NETS: dict[str, Timeouts] = {
    "validate": Timeouts(5, 4),
    "recall": Timeouts(6, 5),
    "condense": Timeouts(None, 28),
    "route": Timeouts(5, 4),
    "retrieve": Timeouts(6, 5),
    "expand": Timeouts(5, 4),
    "ground": Timeouts(6, 5),
    "traverse": Timeouts(6, 5),
    "synthesize": Timeouts(None, 28),
    "respond": Timeouts(None, 11),
    "check": Timeouts(None, 27),
    "documents": Timeouts(None, 10),
    "mcp": Timeouts(None, 28),
    "health": Timeouts(None, 6),
    "authorize": Timeouts(None, 5),
    "record": Timeouts(None, 30),
    "page": Timeouts(None, 3),
}


def net(name: str) -> Timeouts:
    """Return the timeouts of a function; default: no state, one second less than the route."""
    return NETS.get(name, Timeouts(None, ROUTE_S - 1))


def reserved_for_verifier_s(remaining_s: float, request_s: float) -> float:
    """Return the seconds for a verifier: its share, else 3, if another 1 remains; else 1."""
    budgets = (VERIFY.of(request_s).cap_s, VERIFY.least_s)
    return next((cap_s for cap_s in budgets if remaining_s >= cap_s + VERIFY_LATE_S), VERIFY_LATE_S)
