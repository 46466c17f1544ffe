"""One dashboard and the alarms of the service, each alarm with somebody to tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from docstokg.contracts.response import DegradedReason
from docstokg.domain import time_budget
from infra.api import Api
from infra.functions import METRICS_NAMESPACE, Function
from infra.nag import acknowledge
from infra.workflow import Workflow

FIVE_MINUTES = cdk.Duration.minutes(5)
# Of what takes a deploy back: it has to be seen while traffic still shifts.
ONE_MINUTE = cdk.Duration.minutes(1)
REASONS: tuple[str, ...] = get_args(DegradedReason)
MODES = ("snippet", "full", "graph")
OVER = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
UNDER = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
STEPS = {
    "embed": time_budget.RETRIEVE,
    "search": time_budget.RETRIEVE,
    "hydrate": time_budget.HYDRATE,
}
"""Calls to what a question leans on, by the name of their span."""
RUNNING = "ingest_running_seconds"
FEW, SEVERAL = 20, 3
"""Of fewer calls a share says nothing; several failures do, however few were made."""


class Alerts(Construct):
    """The topic every alarm and the budget speak through."""

    def __init__(self, scope: Construct, construct_id: str, *, key: kms.IKey, email: str) -> None:
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        stack = cdk.Stack.of(self)
        # A policy of our own replaces the one that lets the owner's alarms publish.
        for sid, service in (
            ("AlarmsPublish", "cloudwatch.amazonaws.com"),
            ("BudgetsPublish", "budgets.amazonaws.com"),
        ):
            self.topic.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=sid,
                    principals=[iam.ServicePrincipal(service)],
                    actions=["sns:Publish"],
                    resources=[self.topic.topic_arn],
                    conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
                )
            )
        if email:
            self.topic.add_subscription(subscriptions.EmailSubscription(email))
            acknowledge(
                self.topic,
                {
                    "Serverless-SNSRedrivePolicy": "Mail to people: the alarm itself keeps its "
                    "state and its history in CloudWatch."
                },
            )


class Observability(Construct):
    """Metrics of the service itself (EMF) beside those of the platform."""

    def __init__(  # noqa: PLR0913 - widgets are described by name
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: str,
        api: Api,
        workflow: Workflow,
        functions: dict[str, Function],
        dead_letters: Sequence[sqs.Queue],
        topic: sns.ITopic,
    ) -> None:
        super().__init__(scope, construct_id)
        self.environment, self._topic = environment, topic
        self._api, self._workflow, self._functions = api, workflow, functions
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        self._edge_alarms()
        self._workflow_alarms()
        self._function_alarms()
        self._service_alarms()
        for queue in dead_letters:
            self.alarm(
                f"DeadLetters{queue.node.path.split('/')[-2]}",
                queue.metric_approximate_number_of_messages_visible(
                    period=FIVE_MINUTES, statistic="Maximum"
                ),
                0,
                periods=1,
                say="A message could not be processed; docs/operations.md, alarms.",
            )
        self._saved_query()
        self._dashboard()

    def service(
        self,
        name: str,
        statistic: str = "Sum",
        dimensions: dict[str, str] | None = None,
        period_minutes: int = 5,
    ) -> cloudwatch.Metric:
        """A metric the functions write, of this environment."""
        return cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name=name,
            statistic=statistic,
            period=cdk.Duration.minutes(period_minutes),
            dimensions_map={"environment": self.environment, **(dimensions or {})},
        )

    def _saved_query(self) -> None:
        """Every line of one request, over all functions: the id is what is filled in."""
        logs.QueryDefinition(
            self,
            "OneRequest",
            query_definition_name=f"docstokg-{self.environment}/one request",
            log_groups=[function.logs for function in self._functions.values()],
            query_string=logs.QueryString(
                fields=["@timestamp", "@log", "level", "event", "kind", "error", "doubts"],
                filter_statements=['request_id = "REQUEST_ID"'],
                sort="@timestamp asc",
            ),
        )

    def logged(self, name: str, log_group: logs.ILogGroup, pattern: str) -> cloudwatch.Metric:
        """How many lines of a log match, in a minute."""
        counted = logs.MetricFilter(
            self,
            name,
            log_group=log_group,
            filter_pattern=logs.FilterPattern.literal(pattern),
            metric_namespace=f"{METRICS_NAMESPACE}/Logs",
            metric_name=f"{name.lower()}-{self.environment}",
            metric_value="1",
        )
        return counted.metric(period=ONE_MINUTE, statistic="Sum")

    def alarm(  # noqa: PLR0913 - widgets are described by name
        self,
        construct_id: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        *,
        periods: int = 2,
        under: bool = False,
        silence_is_bad: bool = False,
        say: str,
    ) -> cloudwatch.Alarm:
        """An alarm that tells the topic when a metric is over `threshold`, or `under` it."""
        missing = cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            alarm_name=f"docstokg-{self.environment}-{_dashed(construct_id)}",
            alarm_description=say,
            metric=metric,
            threshold=threshold,
            comparison_operator=UNDER if under else OVER,
            evaluation_periods=periods,
            datapoints_to_alarm=periods,
            treat_missing_data=missing.BREACHING if silence_is_bad else missing.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self._topic))
        alarm.add_ok_action(actions.SnsAction(self._topic))
        self.alarms[_dashed(construct_id)] = alarm
        return alarm

    def _edge_alarms(self) -> None:
        api = self._api.api
        ratio = cloudwatch.MathExpression(
            expression=share("errors", "requests"),
            using_metrics={
                "errors": api.metric_server_error(period=ONE_MINUTE, statistic="Sum"),
                "requests": api.metric_count(period=ONE_MINUTE),
            },
            period=ONE_MINUTE,
            label="5xx %",
        )
        self.alarm("Api5xx", ratio, 1, say="More than 1 % of answers are 5xx.")
        self.alarm(
            "ApiLatency",
            api.metric_latency(period=FIVE_MINUTES, statistic="p95"),
            3000,
            periods=3,
            say="p95 over 3 s, the bar with synthesis.",
        )

    def _workflow_alarms(self) -> None:
        machine = self._workflow.machine
        self.alarm(
            "WorkflowFailed",
            machine.metric_failed(period=ONE_MINUTE),
            0,
            periods=1,
            say="An execution failed: no branch caught it, the caller got a 500.",
        )
        self.alarm(
            "WorkflowCrashed",
            self.logged(
                "Crashed",
                self._workflow.logs,
                '{ $.type = "PassStateEntered" && $.details.name = "Crashed" }',
            ),
            0,
            periods=1,
            say="A step crashed and the caller got a 500: the execution itself counts as whole.",
        )
        self.alarm(
            "WorkflowTimedOut",
            machine.metric_timed_out(period=ONE_MINUTE),
            0,
            periods=1,
            say="An execution hit the machine's own limit, so a step's deadline did not hold.",
        )
        self.alarm(
            "WorkflowThrottled",
            machine.metric_throttled(period=FIVE_MINUTES),
            0,
            say="State transitions are throttled: raise the account's quota.",
        )

    def _function_alarms(self) -> None:
        # A stage that fails is tried again, and then its run fails, which has an alarm.
        answering = {n: f for n, f in self._functions.items() if not f.spec.loads}
        for name, function in answering.items():
            limit = function.function.timeout
            assert limit is not None
            errors = cloudwatch.MathExpression(
                expression=share("errors", "calls"),
                using_metrics={
                    "errors": function.function.metric_errors(period=FIVE_MINUTES),
                    "calls": function.function.metric_invocations(period=FIVE_MINUTES),
                },
                period=FIVE_MINUTES,
                label=f"{name} errors %",
            )
            self.alarm(
                f"Errors{name.title()}", errors, 1, say=f"{name}: more than 1 % of calls fail."
            )
            self.alarm(
                f"Throttles{name.title()}",
                function.function.metric_throttles(period=FIVE_MINUTES),
                0,
                say=f"{name}: calls are refused; reserved concurrency or account limit.",
            )
            self.alarm(
                f"Slow{name.title()}",
                function.function.metric_duration(period=FIVE_MINUTES, statistic="p99"),
                limit.to_milliseconds() * 0.8,
                say=f"{name}: p99 over 80 % of its timeout.",
            )

    def _service_alarms(self) -> None:
        degraded = cloudwatch.MathExpression(
            expression=share("degraded", "requests"),
            using_metrics={
                "degraded": self.service("rag_degraded_requests_total", period_minutes=1),
                "requests": self.service("rag_requests_total", period_minutes=1),
            },
            period=ONE_MINUTE,
            label="degraded %",
        )
        self.alarm(
            "Degraded", degraded, 5, say="More than 5 % of answers are degraded; see the reasons."
        )
        doubted = cloudwatch.MathExpression(
            expression=share("doubted", "requests"),
            using_metrics={
                "doubted": self.service("rag_doubted_answers_total"),
                "requests": self.service("rag_requests_total"),
            },
            period=FIVE_MINUTES,
            label="doubted %",
        )
        self.alarm(
            "Doubted", doubted, 20, say="Over a fifth of answers are not carried by their sources."
        )
        for step, budget in STEPS.items():
            self.alarm(
                f"Slow{step.title()}Call",
                self.service("rag_step_latency_seconds", "p95", {"step": step}),
                budget.cap_s / 2,
                periods=3,
                say=f"{step}: p95 over half of what a question gives it.",
            )
        self.alarm(
            "CircuitOpen",
            self.service("circuit_open_total"),
            0,
            periods=1,
            say="A dependency failed repeatedly and is not called for now.",
        )
        self.alarm(
            "PlansRejected",
            self.service("cypher_explain_reject_total"),
            0,
            periods=1,
            say="The plan guard refused a query template.",
        )
        self.alarm(
            "ModelCost",
            self.service("rag_estimated_cost_usd"),
            20,
            periods=1,
            say="The model cost more than 20 USD in five minutes.",
        )

    def _dashboard(self) -> None:
        machine, api = self._workflow.machine, self._api.api
        board = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"docstokg-{self.environment}",
            default_interval=cdk.Duration.hours(6),
            period_override=cloudwatch.PeriodOverride.AUTO,
        )
        board.add_widgets(
            cloudwatch.AlarmStatusWidget(
                title="Alarms", alarms=list(self.alarms.values()), width=24, height=4
            )
        )
        board.add_widgets(
            self._graph(
                "Requests and outcomes",
                [
                    self.service("rag_requests_total"),
                    self.service("rag_refused_requests_total"),
                    self.service("rag_cache_hits_total", dimensions={"hit": "true"}),
                    api.metric_client_error(period=FIVE_MINUTES),
                    api.metric_server_error(period=FIVE_MINUTES),
                    machine.metric_failed(period=FIVE_MINUTES),
                    machine.metric_timed_out(period=FIVE_MINUTES),
                ],
            ),
            self._graph(
                "Latency",
                [api.metric_latency(period=FIVE_MINUTES, statistic=s) for s in ("p50", "p95")]
                + [self.service("rag_request_latency_seconds", s) for s in ("p50", "p95")],
            ),
            self._graph(
                "Degraded by reason",
                [
                    self.service("rag_degraded_requests_total", dimensions={"reason": reason})
                    for reason in REASONS
                ],
            ),
        )
        board.add_widgets(
            self._graph(
                "Budgets used",
                [
                    self.service("rag_budget_chunks_used", "Average"),
                    self.service("rag_budget_tokens_gen_used", "Average"),
                    self.service("rag_estimated_cost_usd"),
                ],
            ),
            self._graph(
                "Graph gain",
                [
                    self.service("rag_kg_concepts_expanded", "Average"),
                    self.service("rag_kg_chunks_added", "Average"),
                    self.service("rag_kg_hits_total", dimensions={"hit": "true"}),
                    self.service("rag_kg_hits_total", dimensions={"hit": "false"}),
                    self.service("rag_kg_boost_impact", "Average"),
                    self.service("rag_kg_2hop_total"),
                ],
            ),
            self._graph(
                "Traversal and plan guard",
                [
                    self.service("graph_expand_nodes_total"),
                    self.service("graph_pruned_nodes_total"),
                    self.service("graph_depth_histogram", "Maximum"),
                    self.service("cypher_explain_reject_total"),
                    self.service("cypher_timeout_total"),
                ],
            ),
        )
        board.add_widgets(
            self._graph(
                "Answer quality",
                [
                    self.service("rag_citation_errors_total"),
                    self.service("rag_confidence", "p50"),
                    self.service("rag_confidence", "p10"),
                    self.service("rag_doubted_answers_total"),
                ],
            ),
            self._graph(
                "Verbosity",
                [
                    self.service("query_verbosity_total", dimensions={"mode": mode})
                    for mode in MODES
                ],
            ),
            self._graph(
                "Steps p95",
                [
                    f.function.metric_duration(period=FIVE_MINUTES, statistic="p95")
                    for f in self._functions.values()
                    if not f.spec.loads
                ],
            ),
        )
        board.add_widgets(
            self._graph(
                "Calls p95",
                [self.service("rag_step_latency_seconds", "p95", {"step": s}) for s in STEPS],
            ),
            self._graph("Loads", [self.service(RUNNING, "Maximum")]),
        )

    @staticmethod
    def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
        return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8, height=6)


def share(bad: str, of: str) -> str:
    """Per cent as a metric expression: 0 while there are few, 100 when several of few are bad."""
    return f"IF({of} >= {FEW}, 100 * {bad} / {of}, IF({bad} >= {SEVERAL}, 100, 0))"


def _dashed(construct_id: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in construct_id).lstrip("-")
