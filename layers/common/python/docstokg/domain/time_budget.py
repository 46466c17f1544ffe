"""Every limit of time in one table: validate, the steps and infra read it, a test holds the ASL.

From the inside out each limit fires before the next: a call's share of the deadline, the deadline
itself, the state (whole seconds, the first net), the function, the execution, the route.
"""

from typing import Final, NamedTuple


class CallBudget(NamedTuple):
    """Seconds one call may take: at most `cap_s`, leaving `reserve_s` for what follows."""

    cap_s: float
    reserve_s: float = 0.0


class Timeouts(NamedTuple):
    """Whole seconds after which a state and the function behind it are given up.

    `state_s` None: the function stands behind no state, or the state computes its own.
    """

    state_s: int | None
    function_s: int


CONDENSE: Final = CallBudget(1.5, 2.5)
RETRIEVE: Final = CallBudget(3.0, 0.25)
VECTOR_HEAD_START_S: Final = 0.025
"""What the question's vector may take and still go with the words, in one round trip."""
EXPAND: Final = CallBudget(1.5, 0.3)
HYDRATE: Final = CallBudget(3.0, 0.15)
RERANK: Final = CallBudget(1.5, 0.4)
SENTENCES: Final = CallBudget(0.5, 0.4)
GRAPH_VIEW: Final = CallBudget(2.0, 0.5)
SYNTHESIZE: Final = CallBudget(float("inf"), 0.3)
CHECK_ANSWER: Final = CallBudget(0.5, 0.05)
VERIFY: Final = CallBudget(3.0, 0.3)
VERIFY_LATE_S: Final = 1.0
"""What is kept for the verifier where less than `VERIFY.cap_s` and this are left."""
CONSISTENCY: Final = CallBudget(0.5, 0.05)
FULL_TEXT: Final = CallBudget(1.0, 0.05)
LEAST_HYDRATE_S: Final = EXPAND.reserve_s - HYDRATE.reserve_s
"""What is left when the graph was waited for to its end: then the deadline, not the index, was the
reason, however little the steps between take."""
LEAST_CALL_S: Final = 0.005
"""With less, no call to a graph is worth starting."""
LEAST_MODEL_S: Final = 0.25
LEAST_FALLBACK_S: Final = 3.0
"""With less, a language model is not asked at all, or not another one after the first failed."""
EXTRACT_S: Final = 0.2
"""For sentences of the sources, kept back where they are to stand in for a model."""
WALK_QUERY_S: Final = 0.5
"""For the question's vector of a walk; without it words score."""
CACHE_S: Final = 0.25
TRACE_S: Final = 0.05
COUNTER_S: Final = 0.05

TRAVERSE_S: Final = 2.0
CHECK_S: Final = 10.0
"""The whole of `/v1/check`; its graph and its vectors get their own part of it."""
CHECK_GRAPH: Final = CallBudget(1.5)
CHECK_VECTORS: Final = CallBudget(1.0)
WORDS_S: Final = 1.0
"""For the check of an answer beyond the vectors' time: what is not reached is `too_long`."""

PASSAGE_S: Final = 3.0
"""Reading one passage with its neighbours: two round trips."""
HEALTH_S: Final = 1.0
WRITE_TRACES_S: Final = 10.0
REMOVE_TRACES_S: Final = 20.0

LONGEST_DEADLINE_S: Final = 25.0
EXECUTION_S: Final = 27
ROUTE_S: Final = 29

NETS: Final[dict[str, Timeouts]] = {
    "validate": Timeouts(3, 4),
    "recall": Timeouts(2, 6),
    "condense": Timeouts(2, 28),
    "route": Timeouts(2, 4),
    "retrieve": Timeouts(4, 6),
    "expand": Timeouts(2, 4),
    "ground": Timeouts(4, 5),
    "traverse": Timeouts(3, 10),
    "synthesize": Timeouts(None, 28),
    "respond": Timeouts(6, 8),
    "check": Timeouts(None, 27),
    "documents": Timeouts(None, 10),
    "mcp": Timeouts(None, 28),
    "health": Timeouts(None, 6),
    "authorize": Timeouts(None, 5),
    "record": Timeouts(None, 30),
    "page": Timeouts(None, 3),
}
"""By state, in lower case, which is also the function's name; `route` is the function expand,
`recall` the function retrieve, `condense` the function synthesize."""


def net(name: str) -> Timeouts:
    """Give the net of a function; one the table does not name ends just before its route does."""
    return NETS.get(name, Timeouts(None, ROUTE_S - 1))


def kept_for_verifier_s(left_s: float) -> float:
    """Return the seconds of `left_s` that an earlier step leaves to the verifier."""
    return VERIFY.cap_s if left_s >= VERIFY.cap_s + VERIFY_LATE_S else VERIFY_LATE_S
