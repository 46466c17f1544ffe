"""Dashboard and alarms."""

from collections.abc import Iterable, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from docstokg.contracts.response import REASONS
from docstokg.domain import time_budget
from infra.api import Api
from infra.base import Stack
from infra.functions import METRICS_NAMESPACE, Function
from infra.specs import MOST_DEGRADED
from infra.workflow import Workflow

FIVE_MINUTES = cdk.Duration.minutes(5)  # the default period of CDK's metrics
# For rollback alarms, which must fire during the shift.
ONE_MINUTE = cdk.Duration.minutes(1)
# Spans of dependency calls, with their time budgets.
STEPS = {
    "embed": time_budget.RETRIEVE,
    "search": time_budget.RETRIEVE,
    "hydrate": time_budget.HYDRATE,
}
RUNNING = "ingest_running_seconds"
# Functions whose log has a line per request or load, and the sums of these lines.
METERED = ("respond", "retrieve", "traverse", "check", "ingest_close")
USAGE = {
    "fields": ["datefloor(@timestamp, 1d) as day"],
    "filter_statements": ['event = "request"'],
    "stats_statements": [
        "count(*) as requests, sum(loaded) as documents, sum(budget_used.tokens_gen) as tokens, "
        "sum(cost_usd) as model_usd by day, namespace, route"
    ],
    "sort": "day desc",
}
# Alarms of failures that users notice.
PAGING = frozenset(
    {
        "api5xx",
        "api-latency",
        "degraded",
        "unanswered",
        "circuit-open",
        "workflow-failed",
        "workflow-crashed",
        "workflow-timed-out",
        "workflow-throttled",
        "index-red",
        "index-blocked",
        "index-storage",
        "index-key",
        "index-managers",
    }
)
# Minimum calls for a share; failures that count even with fewer calls.
FEW, SEVERAL = 20, 3


class Observability(Construct):
    """Metrics, alarms, dashboard."""

    def __init__(
        self,
        stack: Stack,
        api: Api,
        workflow: Workflow,
        functions: dict[str, Function],
        dead_letters: Sequence[sqs.Queue],
        topics: tuple[sns.ITopic, sns.ITopic],
    ) -> None:
        """`topics`: for alarms that users notice, and for those that can wait."""
        super().__init__(stack, "Observability")
        self.environment, self._topics = stack.target.name, topics
        self._api, self._workflow, self._functions = api, workflow, functions
        # A failing stage is retried; then its run fails, which has an alarm.
        self._answering = {n: f for n, f in functions.items() if not f.spec.loads}
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        self._edge_alarms()
        for name, function in self._answering.items():
            self._function_alarms(name, function.function)
        self._service_alarms()
        for queue in dead_letters:
            letters = queue.metric_approximate_number_of_messages_visible(statistic="Maximum")
            description = "A message could not be processed; docs/operations.md, alarms."
            self.alarm(f"DeadLetters{queue.node.path.split('/')[-2]}", letters, 0, 1, description)
        tested = cloudwatch.Metric(namespace=f"{METRICS_NAMESPACE}/Test", metric_name="smoke")
        self.alarm("Test", tested, 0, 1, "`make smoke` sets it, to see that alarms are delivered.")
        self._save_query(
            "OneRequest",
            "one request",
            functions,
            fields=["@timestamp", "@log", "level", "event", "kind", "error", "doubts"],
            filter_statements=['request_id = "REQUEST_ID"'],
            sort="@timestamp asc",
        )
        self._dashboard()

    def service(
        self, name: str, statistic: str = "Sum", minutes: int = 5, **dimensions: str
    ) -> cloudwatch.Metric:
        """Return a metric that the functions write, of this environment."""
        return cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name=name,
            statistic=statistic,
            period=cdk.Duration.minutes(minutes),
            dimensions_map={"environment": self.environment, **dimensions},
        )

    def logged(
        self, name: str, log_group: logs.ILogGroup, pattern: str, period: cdk.Duration
    ) -> cloudwatch.Metric:
        """Return the number of matching log lines per period."""
        counted = logs.MetricFilter(
            self,
            name,
            log_group=log_group,
            filter_pattern=logs.FilterPattern.literal(pattern),
            metric_namespace=f"{METRICS_NAMESPACE}/Logs",
            metric_name=f"{name.lower()}-{self.environment}",
            metric_value="1",
        )
        return counted.metric(period=period, statistic="Sum")

    def alarm(  # noqa: PLR0913 - an alarm is described by name
        self,
        construct_id: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        periods: int,
        description: str,
        *,
        under: bool = False,
        on_silence: bool = False,
    ) -> None:
        """Add an alarm for a metric over `threshold`, or `under` it, for `periods` periods.

        `on_silence`: also for missing data after the first data point.
        """
        comparison, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            alarm_name=f"docstokg-{self.environment}-{_dashed(construct_id)}",
            alarm_description=description,
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison.LESS_THAN_THRESHOLD
            if under
            else comparison.GREATER_THAN_THRESHOLD,
            evaluation_periods=periods,
            datapoints_to_alarm=periods,
            treat_missing_data=missing.MISSING if on_silence else missing.NOT_BREACHING,
        )
        action = actions.SnsAction(self._topics[_dashed(construct_id) not in PAGING])
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)
        if on_silence:
            alarm.add_insufficient_data_action(action)
        self.alarms[_dashed(construct_id)] = alarm

    def _edge_alarms(self) -> None:
        api, machine = self._api.api, self._workflow.machine
        errors = api.metric_server_error(period=ONE_MINUTE, statistic="Sum")
        crashed = self._executions("Crashed", ONE_MINUTE)
        self._refused = self._executions("Refused", FIVE_MINUTES, state="Throttled")
        for construct_id, metric, threshold, periods, description in (
            ("Api5xx", share(errors, api.metric_count(period=ONE_MINUTE)), 1, 2,
             "More than 1 % of answers are 5xx."),
            ("ApiLatency", api.metric_latency(statistic="p95"), 3000, 3,
             "p95 over 3 s, the bar with synthesis."),
            ("WorkflowFailed", machine.metric_failed(period=ONE_MINUTE), 0, 1,
             "An execution failed: no branch caught it, the caller got a 500."),
            ("WorkflowCrashed", crashed, 0, 1,
             "A step crashed and the caller got a 500: the execution itself counts as whole."),
            ("WorkflowTimedOut", machine.metric_timed_out(period=ONE_MINUTE), 0, 1,
             "An execution hit the machine's own limit, so a step's deadline did not hold."),
            ("WorkflowThrottled", machine.metric_throttled(), 0, 2,
             "State transitions are throttled: raise the account's quota."),
        ):  # fmt: skip
            self.alarm(construct_id, metric, threshold, periods, description)

    def _executions(self, name: str, period: cdk.Duration, state: str = "") -> cloudwatch.Metric:
        pattern = f'{{ $.type = "PassStateEntered" && $.details.name = "{state or name}" }}'
        return self.logged(name, self._workflow.logs, pattern, period)

    def _function_alarms(self, name: str, function: cdk.aws_lambda.Function) -> None:
        errors = function.metric_errors()
        calls = function.metric_invocations()
        failing = f"{name}: more than 1 % of calls fail."
        self.alarm(f"Errors{name.title()}", share(errors, calls), 1, 2, failing)
        refused = f"{name}: calls are refused; reserved concurrency or account limit."
        throttles = function.metric_throttles()
        self.alarm(f"Throttles{name.title()}", throttles, 0, 2, refused)
        assert function.timeout is not None
        limit = function.timeout.to_milliseconds() * 0.8
        slow = function.metric_duration(statistic="p99")
        self.alarm(f"Slow{name.title()}", slow, limit, 2, f"{name}: p99 over 80 % of its timeout.")

    def _service_alarms(self) -> None:
        of = self.service
        degraded = share(
            of("rag_degraded_requests_total", minutes=1), of("rag_requests_total", minutes=1)
        )
        doubted = share(of("rag_doubted_answers_total"), of("rag_requests_total"))
        for construct_id, metric, threshold, periods, description in (
            ("Degraded", degraded, MOST_DEGRADED, 2,
             f"More than {MOST_DEGRADED} % of answers are degraded; see the reasons."),
            ("Doubted", doubted, 20, 2, "Over a fifth of answers are not carried by sources."),
            ("CircuitOpen", of("circuit_open_total"), 0, 1,
             "A dependency failed repeatedly and is not called for now."),
            ("PlansRejected", of("cypher_explain_reject_total"), 0, 1,
             "The plan guard refused a query template."),
            ("ModelCost", of("rag_estimated_cost_usd"), 20, 1,
             "The model cost more than 20 USD in five minutes."),
        ):  # fmt: skip
            self.alarm(construct_id, metric, threshold, periods, description)
        for step, budget in STEPS.items():
            slow, limit = of("rag_step_latency_seconds", "p95", step=step), budget.cap_s / 2
            description = f"{step}: p95 over half of what a question gives it."
            self.alarm(f"Slow{step.title()}Call", slow, limit, 3, description)

    def _save_query(
        self, construct_id: str, name: str, functions: Iterable[str], **parts: Any
    ) -> logs.QueryString:
        query = logs.QueryString(**parts)
        logs.QueryDefinition(
            self,
            construct_id,
            query_definition_name=f"docstokg-{self.environment}/{name}",
            log_groups=[self._functions[function].logs for function in functions],
            query_string=query,
        )
        return query

    def _dashboard(self) -> None:
        machine, api, of = self._workflow.machine, self._api.api, self.service
        latencies = [api.metric_latency(statistic=s) for s in ("p50", "p95")]
        answering = self._answering.values()
        durations = [step.function.metric_duration(statistic="p95") for step in answering]
        by_reason = [of("rag_degraded_requests_total", reason=reason) for reason in REASONS]
        graphs = {
            "Requests and outcomes": [
                of("rag_requests_total"), of("rag_refused_requests_total"), self._refused,
                of("rag_cache_hits_total", hit="true"), api.metric_client_error(),
                api.metric_server_error(), machine.metric_failed(),
                machine.metric_timed_out(),
            ],
            "Latency": latencies + [of("rag_request_latency_seconds", s) for s in ("p50", "p95")],
            "Degraded by reason": by_reason,
            "Budgets used": [
                of("rag_budget_chunks_used", "Average"),
                of("rag_budget_tokens_gen_used", "Average"), of("rag_estimated_cost_usd"),
            ],
            "Graph gain": [
                of("rag_kg_concepts_expanded", "Average"), of("rag_kg_chunks_added", "Average"),
                of("rag_kg_hits_total"), of("rag_kg_hits_total", hit="true"),
                of("rag_kg_boost_impact", "Average"), of("rag_kg_2hop_total"),
            ],
            "Traversal and plan guard": [
                of("graph_expand_nodes_total"), of("graph_pruned_nodes_total"),
                of("graph_depth_histogram", "Maximum"), of("cypher_explain_reject_total"),
                of("cypher_timeout_total"),
            ],
            "Answer quality": [
                of("rag_citation_errors_total"), of("rag_confidence", "p50"),
                of("rag_confidence", "p10"), of("rag_doubted_answers_total"),
            ],
            "Steps p95": durations,
            "Calls p95": [of("rag_step_latency_seconds", "p95", step=step) for step in STEPS],
            "Loads": [of(RUNNING, "Maximum")],
        }  # fmt: skip
        usage = self._save_query("Usage", "usage", METERED, **USAGE)
        log_query = cloudwatch.LogQueryWidget(
            title="Usage by namespace",
            log_group_names=[self._functions[name].logs.log_group_name for name in METERED],
            query_string=usage.to_string(),
            width=24,
        )
        cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"docstokg-{self.environment}",
            default_interval=cdk.Duration.hours(6),
            period_override=cloudwatch.PeriodOverride.AUTO,
            widgets=[
                [
                    cloudwatch.AlarmStatusWidget(
                        title="Alarms", alarms=list(self.alarms.values()), width=24, height=4
                    )
                ],
                [
                    cloudwatch.GraphWidget(title=title, left=metrics, width=8, height=6)
                    for title, metrics in graphs.items()
                ],
                [log_query],
            ],
        )


def share(bad: cloudwatch.Metric, of: cloudwatch.Metric) -> cloudwatch.MathExpression:
    """Return a percentage metric; for fewer than 20 calls 0, or 100 from 3 failures."""
    return cloudwatch.MathExpression(
        expression=f"IF(calls >= {FEW}, 100 * bad / calls, IF(bad >= {SEVERAL}, 100, 0))",
        using_metrics={"bad": bad, "calls": of},
        period=bad.period,
        label="%",
    )


def _dashed(construct_id: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in construct_id).lstrip("-")
