"""One dashboard and the alarms of the service, each alarm with somebody to tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from docstokg.contracts.response import DegradedReason
from infra.api import Api
from infra.functions import METRICS_NAMESPACE, Function
from infra.nag import acknowledge
from infra.workflow import Workflow

FIVE_MINUTES = cdk.Duration.minutes(5)
REASONS: tuple[str, ...] = get_args(DegradedReason)
MODES = ("snippet", "full", "graph")
OVER = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD


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

    def __init__(
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
        self._environment, self._topic = environment, topic
        self._api, self._workflow, self._functions = api, workflow, functions
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        self._edge_alarms()
        self._workflow_alarms()
        self._function_alarms()
        self._service_alarms()
        for queue in dead_letters:
            self._alarm(
                f"DeadLetters{queue.node.path.split('/')[-2]}",
                queue.metric_approximate_number_of_messages_visible(
                    period=FIVE_MINUTES, statistic="Maximum"
                ),
                0,
                periods=1,
                say="A message could not be processed; docs/deploy.md, dead letters.",
            )
        self._dashboard()

    def _service(
        self, name: str, statistic: str = "Sum", dimensions: dict[str, str] | None = None
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=METRICS_NAMESPACE,
            metric_name=name,
            statistic=statistic,
            period=FIVE_MINUTES,
            dimensions_map={"environment": self._environment, **(dimensions or {})},
        )

    def _alarm(
        self,
        construct_id: str,
        metric: cloudwatch.IMetric,
        threshold: float,
        *,
        periods: int = 2,
        say: str,
    ) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            alarm_name=f"docstokg-{self._environment}-{_dashed(construct_id)}",
            alarm_description=say,
            metric=metric,
            threshold=threshold,
            comparison_operator=OVER,
            evaluation_periods=periods,
            datapoints_to_alarm=periods,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(actions.SnsAction(self._topic))
        alarm.add_ok_action(actions.SnsAction(self._topic))
        self.alarms[_dashed(construct_id)] = alarm
        return alarm

    def _edge_alarms(self) -> None:
        api = self._api.api
        ratio = cloudwatch.MathExpression(
            expression="100 * errors / MAX([requests, 1])",
            using_metrics={
                "errors": api.metric_server_error(period=FIVE_MINUTES, statistic="Sum"),
                "requests": api.metric_count(period=FIVE_MINUTES),
            },
            period=FIVE_MINUTES,
            label="5xx %",
        )
        self._alarm("Api5xx", ratio, 1, say="More than 1 % of answers are 5xx.")
        self._alarm(
            "ApiLatency",
            api.metric_latency(period=FIVE_MINUTES, statistic="p95"),
            3000,
            periods=3,
            say="p95 over 3 s, the bar with synthesis.",
        )

    def _workflow_alarms(self) -> None:
        machine = self._workflow.machine
        self._alarm(
            "WorkflowFailed",
            machine.metric_failed(period=FIVE_MINUTES),
            0,
            periods=1,
            say="An execution failed: no branch caught it, the caller got a 500.",
        )
        self._alarm(
            "WorkflowTimedOut",
            machine.metric_timed_out(period=FIVE_MINUTES),
            0,
            periods=1,
            say="An execution hit the machine's own limit, so a step's deadline did not hold.",
        )
        self._alarm(
            "WorkflowThrottled",
            machine.metric_throttled(period=FIVE_MINUTES),
            0,
            say="State transitions are throttled: raise the account's quota.",
        )

    def _function_alarms(self) -> None:
        for name, function in self._functions.items():
            limit = function.function.timeout
            assert limit is not None
            errors = cloudwatch.MathExpression(
                expression="100 * errors / MAX([calls, 1])",
                using_metrics={
                    "errors": function.function.metric_errors(period=FIVE_MINUTES),
                    "calls": function.function.metric_invocations(period=FIVE_MINUTES),
                },
                period=FIVE_MINUTES,
                label=f"{name} errors %",
            )
            self._alarm(
                f"Errors{name.title()}", errors, 1, say=f"{name}: more than 1 % of calls fail."
            )
            self._alarm(
                f"Throttles{name.title()}",
                function.function.metric_throttles(period=FIVE_MINUTES),
                0,
                say=f"{name}: calls are refused; reserved concurrency or account limit.",
            )
            self._alarm(
                f"Slow{name.title()}",
                function.function.metric_duration(period=FIVE_MINUTES, statistic="p99"),
                limit.to_milliseconds() * 0.8,
                say=f"{name}: p99 over 80 % of its timeout.",
            )

    def _service_alarms(self) -> None:
        degraded = cloudwatch.MathExpression(
            expression="100 * degraded / MAX([requests, 1])",
            using_metrics={
                "degraded": self._service("rag_degraded_requests_total"),
                "requests": self._service("rag_requests_total"),
            },
            period=FIVE_MINUTES,
            label="degraded %",
        )
        self._alarm(
            "Degraded", degraded, 5, say="More than 5 % of answers are degraded; see the reasons."
        )
        self._alarm(
            "CircuitOpen",
            self._service("circuit_open_total"),
            0,
            periods=1,
            say="A dependency failed repeatedly and is not called for now.",
        )
        self._alarm(
            "PlansRejected",
            self._service("cypher_explain_reject_total"),
            0,
            periods=1,
            say="The plan guard refused a query template.",
        )
        self._alarm(
            "ModelCost",
            self._service("rag_estimated_cost_usd"),
            20,
            periods=1,
            say="The model cost more than 20 USD in five minutes.",
        )

    def _dashboard(self) -> None:
        machine, api = self._workflow.machine, self._api.api
        board = cloudwatch.Dashboard(
            self,
            "Dashboard",
            dashboard_name=f"docstokg-{self._environment}",
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
                    self._service("rag_requests_total"),
                    api.metric_client_error(period=FIVE_MINUTES),
                    api.metric_server_error(period=FIVE_MINUTES),
                    machine.metric_failed(period=FIVE_MINUTES),
                    machine.metric_timed_out(period=FIVE_MINUTES),
                ],
            ),
            self._graph(
                "Latency",
                [api.metric_latency(period=FIVE_MINUTES, statistic=s) for s in ("p50", "p95")]
                + [self._service("rag_request_latency_seconds", s) for s in ("p50", "p95")],
            ),
            self._graph(
                "Degraded by reason",
                [
                    self._service("rag_degraded_requests_total", dimensions={"reason": reason})
                    for reason in REASONS
                ],
            ),
        )
        board.add_widgets(
            self._graph(
                "Budgets used",
                [
                    self._service("rag_budget_chunks_used", "Average"),
                    self._service("rag_budget_tokens_gen_used", "Average"),
                    self._service("rag_estimated_cost_usd"),
                ],
            ),
            self._graph(
                "Graph gain",
                [
                    self._service("rag_kg_concepts_expanded", "Average"),
                    self._service("rag_kg_chunks_added", "Average"),
                    self._service("rag_kg_hits_total"),
                    self._service("rag_kg_boost_impact", "Average"),
                    self._service("rag_kg_2hop_total"),
                ],
            ),
            self._graph(
                "Traversal and plan guard",
                [
                    self._service("graph_expand_nodes_total"),
                    self._service("graph_pruned_nodes_total"),
                    self._service("graph_depth_histogram", "Maximum"),
                    self._service("cypher_explain_reject_total"),
                    self._service("cypher_timeout_total"),
                ],
            ),
        )
        board.add_widgets(
            self._graph(
                "Answer quality",
                [
                    self._service("rag_citation_errors_total"),
                    self._service("rag_confidence", "p50"),
                    self._service("rag_confidence", "p10"),
                ],
            ),
            self._graph(
                "Verbosity",
                [
                    self._service("query_verbosity_total", dimensions={"mode": mode})
                    for mode in MODES
                ],
            ),
            self._graph(
                "Steps p95",
                [
                    f.function.metric_duration(period=FIVE_MINUTES, statistic="p95")
                    for f in self._functions.values()
                ],
            ),
        )

    @staticmethod
    def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
        return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8, height=6)


def _dashed(construct_id: str) -> str:
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in construct_id).lstrip("-")
