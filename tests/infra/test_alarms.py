"""Monitoring of a deployment: alarms, dead letters, silence, the dashboard's metrics."""

import json
import re

import pytest

from infra.observability import PAGING
from infra.specs import FUNCTIONS
from tests.infra.conftest import Template


def test_alarms_tell_somebody_and_cover_the_operations_page(template: Template) -> None:
    topics = {
        kind: {"Ref": name}
        for name in template.all("AWS::SNS::Topic")
        for kind in ("Alerts", "Notices")
        if name.startswith(kind)
    }
    assert len(topics) == 2
    for name, alarm in template.alarms.items():
        (action,) = alarm["AlarmActions"]
        assert action == topics["Alerts" if name in PAGING else "Notices"], name
        assert alarm["AlarmDescription"]
    (budget,) = template.all("AWS::Budgets::Budget").values()
    (reader,) = budget["NotificationsWithSubscribers"][0]["Subscribers"]
    assert reader["Address"] == topics["Notices"]
    names = {
        "api5xx",
        "api-latency",
        "workflow-failed",
        "workflow-timed-out",
        "workflow-throttled",
        "workflow-crashed",
        "doubted",
        "slow-embed-call",
        "slow-search-call",
        "degraded",
        "circuit-open",
        "plans-rejected",
        "model-cost",
        "api-throttled",
        "index-red",
        "index-storage",
        "index-key",
        "traces-old",
        "throttles-circuit",
        "index-nodes",
        "index-rejects-search",
        "index-rejects-write",
        "test",
        "ingest-failed",
        "ingest-late",
        "sources-failed",
        "kept-back",
    }
    ours = template.ours
    if ours.index.managers:
        names |= {"index-managers", "index-manager-cpu", "index-manager-memory"}
    if ours.waf_requests_per_5_minutes:
        names.add("waf-throttled")
    if ours.index.kind == "managed":
        names.add("resize-due")
    names |= PAGING - {"index-managers", *(["unanswered"] if not ours.canary else [])}
    for spec in FUNCTIONS:
        if not spec.loads:
            names |= {f"{kind}-{spec.name}" for kind in ("errors", "throttles", "slow")}
    assert names <= template.alarms.keys()


def test_firewall_logs_and_all_others_last_equally_long(template: Template) -> None:
    groups = template.all("AWS::Logs::LogGroup").values()
    assert {group["RetentionInDays"] for group in groups} == {template.ours.log_days}
    acls = template.all("AWS::WAFv2::WebACL")
    configured = template.all("AWS::WAFv2::LoggingConfiguration").values()
    assert [configuration["ResourceArn"]["Fn::GetAtt"][0] for configuration in configured] == list(
        acls
    )
    for configuration in configured:
        assert "aws-waf-logs-" in json.dumps(configuration["LogDestinationConfigs"])
        redacted = json.dumps(configuration["RedactedFields"]).lower()
        assert all(word in redacted for word in ("authorization", "x-api-key", "querystring"))


def test_unwritten_traces_reach_a_queue_with_an_alarm(
    template: Template,
) -> None:
    queues = template.all("AWS::SQS::Queue")
    redriven = {
        name: queue["RedrivePolicy"] for name, queue in queues.items() if "RedrivePolicy" in queue
    }
    ((dead,),) = {(policy["deadLetterTargetArn"]["Fn::GetAtt"][0],) for policy in redriven.values()}
    assert {policy["maxReceiveCount"] for policy in redriven.values()} == {3}
    mappings = template.all("AWS::Lambda::EventSourceMapping")
    assert len(mappings) == len(redriven) == 2
    for name, mapping in mappings.items():
        queue = mapping["EventSourceArn"]["Fn::GetAtt"][0]
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        reader = template.function("record" if "Record" in name else "documents")
        assert redriven[queue] and queues[queue]["VisibilityTimeout"] >= 6 * reader["Timeout"]
    (cleaning,) = (
        schedule["Target"]
        for schedule in template.all("AWS::Scheduler::Schedule").values()
        if "DeadLetterConfig" in schedule["Target"]
    )
    missed = cleaning["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0]
    assert {dead, missed} == set(queues) - set(redriven)
    watched = set()
    for alarm in template.alarms.values():
        for dimension in alarm.get("Dimensions", []):
            if dimension["Name"] == "QueueName" and "Visible" in alarm["MetricName"]:
                watched.add(dimension["Value"]["Fn::GetAtt"][0])
                fires = (alarm["Threshold"], alarm["ComparisonOperator"])
                assert fires == (0, "GreaterThanThreshold")
    assert watched == {dead, missed}


@pytest.mark.parametrize(
    ("bad", "calls", "per_cent"), [(1, 19, 0), (2, 19, 0), (1, 20, 5), (3, 5, 100), (0, 0, 0)]
)
def test_one_error_among_few_calls_is_no_alarm(
    dev: Template, bad: int, calls: int, per_cent: float
) -> None:
    """m20: a share counts from twenty calls on; before, three failures are several."""
    errors = dev.alarms["errors-retrieve"]
    (text,) = (metric["Expression"] for metric in errors["Metrics"] if "Expression" in metric)
    parts = re.fullmatch(
        r"IF\((\w+) >= (\d+), 100 \* (\w+) / \1, IF\(\3 >= (\d+), 100, 0\)\)", text
    )
    assert parts is not None, text
    few, several = int(parts[2]), int(parts[4])
    share = 100 * bad / calls if calls >= few else 100 if bad >= several else 0
    assert share == per_cent
    assert (share > errors["Threshold"]) == (share > 1)


def test_silence_is_an_alarm_where_questions_are_scheduled(template: Template) -> None:
    """The question is one the functions answer: as they read it, not as it is written."""
    import base64

    from docstokg.contracts.envelope import Envelope
    from docstokg.settings import Settings
    from docstokg_functions.validate.validate import validate

    asking = [
        schedule["Target"]
        for schedule in template.all("AWS::Scheduler::Schedule").values()
        if "sfn:startExecution" in str(schedule["Target"]["Arn"])
    ]
    unanswered = [template.alarms["unanswered"]] if "unanswered" in template.alarms else []
    assert len(asking) == len(unanswered) == (template.ours.canary is not None)
    for target, alarm in zip(asking, unanswered, strict=True):
        text = "".join(part for part in target["Input"]["Fn::Join"][1] if isinstance(part, str))
        envelope = json.loads(json.loads(text)["Input"])
        validated = validate(
            Envelope.model_validate(envelope), rules=Settings(), started_at="", now_ms=0
        )
        assert validated.plan is not None, validated.reply
        assert json.loads(base64.b64decode(envelope["body_b64"]))["query"] == validated.plan.query
        # Before the first load nothing was ever found: that is no news. Silence after it is.
        fires = (alarm["TreatMissingData"], alarm["ComparisonOperator"])
        assert fires == ("missing", "LessThanThreshold")
        assert alarm["MetricName"] == "rag_found_requests_total"
        assert alarm["InsufficientDataActions"] == alarm["AlarmActions"]


def test_the_service_reports_all_metrics_of_the_dashboard(template: Template) -> None:
    from docstokg.observability import METRICS

    board = json.dumps(template.only("AWS::CloudWatch::Dashboard")["DashboardBody"])
    names = set(re.findall(r'"DocsToKG\\",\\"(\w+)', board))
    names |= set(re.findall(r"DocsToKG\W+(\w+)", board))
    assert names - {"environment", "Logs"} <= set(METRICS)
    assert len(names) >= 15
    for alarm in template.alarms.values():
        used = [alarm] + [
            m["MetricStat"]["Metric"] for m in alarm.get("Metrics", []) if "MetricStat" in m
        ]
        for metric in used:
            if metric.get("Namespace") == "DocsToKG":
                assert metric["MetricName"] in METRICS


def test_kept_deletions_name_the_command_that_agrees(template: Template) -> None:
    kept_back = template.alarms["kept-back"]["AlarmDescription"]
    assert 'make index-job JOB="agree RUN"' in kept_back
