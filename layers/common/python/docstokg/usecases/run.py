"""State of a running step."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from docstokg.contracts.envelope import Caller
from docstokg.contracts.records import Scope
from docstokg.contracts.request import DEFAULT_NAMESPACE
from docstokg.contracts.response import DegradedReason
from docstokg.contracts.state import Failure, Plan
from docstokg.domain import time_budget
from docstokg.domain.deadline import Deadline
from docstokg.errors import DocsToKGError, PlanRejected, Timeout, cause
from docstokg.observability import Telemetry
from docstokg.ports import SearchIndex
from docstokg.usecases.refusals import caller_hash

# Maximum namespaces in a message.
MOST_LISTED = 20

Reason = DegradedReason | Callable[[DocsToKGError], DegradedReason]
# Starts the call of a request id with a scope.
Begin = Callable[[str, Scope], "Call"]


@dataclass(kw_only=True)
class Call:
    """One call of a route without a plan; its notes become part of the response.

    `clock` returns epoch seconds.
    """

    request_id: str
    deadline: Deadline
    scope: Scope
    telemetry: Telemetry
    clock: Callable[[], float] = time.time
    degraded: list[DegradedReason] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    begun: float = field(default_factory=time.perf_counter)
    timings_ms: dict[str, float] = field(default_factory=dict)

    def took_ms(self) -> float:
        """Return the milliseconds since the step began."""
        return round((time.perf_counter() - self.begun) * 1000, 2)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Record the milliseconds of a block, even if it fails."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.timings_ms[name] = round((time.perf_counter() - started) * 1000, 2)

    def mark_degraded(self, reason: DegradedReason) -> None:
        """Record a degraded reason once."""
        if reason not in self.degraded:
            self.degraded.append(reason)

    def attempt[Answer](
        self, name: str, call: Callable[[], Answer], lost: Reason | None, **fields: str
    ) -> Answer | None:
        """Run a call to an external service; log a DocsToKGError, record `lost`, return None.

        `name`: of the span and, with `_failed`, of the log line. `lost` None: the failure does not
        affect the response. `fields`: added to both.
        """
        try:
            with self.telemetry.span(name, request_id=self.request_id, **fields):
                return call()
        except DocsToKGError as error:
            self.log(name, error, lost, **fields)
            return None

    def chosen_namespace(self, caller: Caller, index: SearchIndex) -> str | Failure:
        """Return the namespace of a request that names none, or a 400 that lists the possible ones.

        The only granted one; else `default` if readable and filled (has passages); else the only
        readable and filled one; if none is, `default` if readable, else the first granted. If the
        index cannot be read, all granted ones count as filled.
        """
        if caller.sole_namespace:
            return caller.sole_namespace
        deadline = self.deadline.limit(time_budget.NAMESPACE_S)
        granted = set(caller.namespaces) - {"*"}
        filled = self.attempt("namespaces", lambda: index.info(deadline).namespaces, None)
        names = sorted(filter(caller.may_read, granted if filled is None else filled))
        if DEFAULT_NAMESPACE in names or (not names and caller.may_read(DEFAULT_NAMESPACE)):
            return DEFAULT_NAMESPACE
        if len(names) <= 1:
            return min(names or granted)
        suffix = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        listed = ", ".join(names[:MOST_LISTED])
        detail = f"Name a namespace; those with documents that you may read: {listed}{suffix}."
        return Failure(status=400, code="namespace_required", detail=detail)

    def log(
        self,
        name: str,
        error: DocsToKGError,
        lost: Reason | None = None,
        level: str = "WARNING",
        **fields: str,
    ) -> None:
        """Log a failure that is not raised, and record its reason."""
        reason = lost(error) if callable(lost) else lost
        if reason is not None:
            self.mark_degraded(reason)
        self.telemetry.log(
            level,
            f"{name}_failed",
            request_id=self.request_id,
            **cause(error),
            reason=reason,
            **fields,
        )

    def answered(self, route: str, **fields: object) -> None:
        """Count and log a request of a route without a plan."""
        self.telemetry.count("rag_requests_total", route=route, status="200")
        self.telemetry.log(
            "INFO",
            "request",
            request_id=self.request_id,
            route=route,
            status=200,
            namespace=self.scope.namespace,
            degraded_reasons=list(self.degraded),
            **fields,
        )

    def skip(self, name: str, reason: DegradedReason, why: str) -> None:
        """Record and log a missing prerequisite of a call."""
        self.mark_degraded(reason)
        self.telemetry.log(
            "WARNING", f"{name}_skipped", request_id=self.request_id, reason=reason, error=why
        )


@dataclass(kw_only=True)
class Run(Call):
    """One step of one request of the state machine."""

    plan: Plan
    request_id: str = field(init=False)
    deadline: Deadline = field(init=False)

    def __post_init__(self) -> None:
        self.request_id = self.plan.request_id
        self.deadline = Deadline.after(self.plan.deadline_ms / 1000 - self.clock())

    @classmethod
    def of(cls, event: Mapping[str, Any], telemetry: Telemetry) -> Self:
        """Create the step of an event; without a scope it uses the caller's permissions.

        Raise KeyError without a plan.
        """
        plan = Plan.model_validate(event["plan"])
        seen = {"namespace": plan.namespace, "others": plan.others, "groups": plan.groups}
        scope = Scope.model_validate(event.get("scope") or seen)
        return cls(plan=plan, scope=scope, telemetry=telemetry)

    def labels(self, provider: str = "none") -> dict[str, str]:
        """Return the metric labels of the request and the answer's provider."""
        plan = self.plan
        return {
            "route": plan.route,
            "namespace": plan.namespace,
            "synthesis": str(plan.synthesis is not None).lower(),
            "mode": plan.verbosity,
            "provider": provider,
        }

    def finish(
        self, status: int, level: str = "INFO", provider: str = "none", **fields: object
    ) -> None:
        """Count and log the request; the caller is logged as a hash."""
        labels = self.labels(provider)
        self.telemetry.count("rag_requests_total", 1.0, status=str(status), **labels)
        self.telemetry.log(
            level,
            "request",
            request_id=self.request_id,
            caller=caller_hash(self.plan.caller_sub),
            status=status,
            **labels,
            **fields,
        )

    def total_ms(self) -> float:
        """Return the milliseconds since the request arrived."""
        return round(self.clock() * 1000 - self.plan.started_ms, 1)


def beginning(telemetry: Telemetry, time_s: float) -> Begin:
    """Return a factory of calls with `time_s` seconds each."""
    return lambda request_id, scope: Call(
        request_id=request_id,
        deadline=Deadline.after(time_s),
        scope=scope,
        telemetry=telemetry,
    )


def graph_reason(error: DocsToKGError) -> DegradedReason:
    """Return `kg_timeout`, `kg_plan_rejected` or, for other errors, `kg_unavailable`."""
    if isinstance(error, Timeout):
        return "kg_timeout"
    return "kg_plan_rejected" if isinstance(error, PlanRejected) else "kg_unavailable"
