"""Loading in AWS: the bucket, the machine, and its functions' rights."""

import json
import re
from typing import Any

from infra.specs import ROOT
from tests.infra.conftest import Template
from tests.infra.deployed import Deployed


def test_the_bucket_of_documents_is_ours_alone(template: Template) -> None:
    (name,) = (n for n in template.all("AWS::S3::Bucket") if n.startswith("Intake"))
    bucket = template.resources[name]["Properties"]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert "DataKey" in json.dumps(rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"])
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert "BucketName" not in bucket
    rules = bucket["LifecycleConfiguration"]["Rules"]
    expiry = {rule["Prefix"]: rule.get("ExpirationInDays") for rule in rules if "Prefix" in rule}
    # What was sent is kept as long as it is loaded; deleted, no older version outlives a day.
    without_end = ("inbox/", "posted/", "encodings/", "register/")
    assert expiry == {"runs/": 90, **dict.fromkeys(without_end)}
    for rule in rules:
        if "Prefix" in rule:
            assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
    (every,) = (rule for rule in rules if "Prefix" not in rule)
    assert every["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert "ExpirationInDays" not in every
    (policy,) = (
        policy["PolicyDocument"]["Statement"]
        for policy in template.all("AWS::S3::BucketPolicy").values()
        if policy["Bucket"] == {"Ref": name}
    )
    assert [s["Effect"] for s in policy] == ["Deny"]
    assert policy[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    deletion = "Delete" if template.name != "prod" else "RetainExceptOnCreate"
    assert template.resources[name]["DeletionPolicy"] == deletion


def matches(pattern: dict[str, Any], event: dict[str, Any]) -> bool:
    """EventBridge guide, "Comparison operators": each field fits a value of the pattern."""

    def fits(wanted: Any, value: object) -> bool:
        if not isinstance(wanted, dict):
            return bool(wanted == value)
        ((operator, operand),) = wanted.items()
        if operator == "prefix":
            return str(value).startswith(operand)
        assert operator == "anything-but", operator
        return value not in (operand if isinstance(operand, list) else [operand])

    return all(
        matches(wanted, event.get(name, {}))
        if isinstance(wanted, dict)
        else any(fits(pattern, event.get(name)) for pattern in wanted)
        for name, wanted in pattern.items()
    )


def test_only_objects_of_sources_trigger_the_function(
    template: Template,
) -> None:
    deployed = Deployed(template)
    bucket = deployed.of("AWS::S3::Bucket", "Intake")
    notification = deployed.properties(bucket)["NotificationConfiguration"]
    assert notification == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    rule = deployed.properties(deployed.of("AWS::Events::Rule", "ChangesRule"))
    failures = deployed.properties(deployed.of("AWS::Events::Rule", "ChangesFailures"))
    assert failures["Targets"][0]["Arn"] == rule["Targets"][0]["Arn"]
    for status, repeated in (("FAILED", True), ("TIMED_OUT", True), ("ABORTED", False)):
        detail = {"stateMachineArn": deployed.arn(deployed.loading), "status": status}
        kind = "Step Functions Execution Status Change"
        failure = {"source": "aws.states", "detail-type": kind, "detail": detail}
        assert matches(failures["EventPattern"], failure) is repeated

    def event(kind: str, key: str, reason: str, name: str = deployed.ref(bucket)) -> dict[str, Any]:
        """S3 guide, "EventBridge event message structure"."""
        detail = {"bucket": {"name": name}, "object": {"key": key}, "reason": reason}
        return {"source": "aws.s3", "detail-type": f"Object {kind}", "detail": detail}

    for sample, expected in (
        (event("Created", "sources/default/a.md", "PutObject"), True),
        (event("Deleted", "sources/default/a.md", "DeleteObject"), True),
        (event("Created", "runs/1/rows/a", "PutObject"), False),
        (event("Deleted", "sources/default/a.md", "Lifecycle Expiration"), False),
        (event("Tags Added", "sources/default/a.md", "PutObjectTagging"), False),
        (event("Created", "sources/default/a.md", "PutObject", "another"), False),
    ):
        assert matches(rule["EventPattern"], sample) is expected, sample
    (target,) = rule["Targets"]
    reading = deployed.properties(deployed.of("AWS::Lambda::EventSourceMapping", "Documents"))
    assert reading["EventSourceArn"] == target["Arn"]
    assert reading["ScalingConfig"] == {"MaximumConcurrency": 2}
    group = deployed.properties(deployed.only("AWS::Scheduler::ScheduleGroup"))["Name"]
    assert deployed.ref(deployed.loading).rpartition(":")[2] == group
    assert "DOCSTOKG_LOAD_SCHEDULE_ROLE" in deployed.variables("documents")


def test_load_ends_match_the_documented_event_pattern(template: Template) -> None:
    """Step Functions sends these itself, for standard machines only."""
    deployed = Deployed(template)
    machine = deployed.properties(deployed.loading)
    assert machine["StateMachineType"] == "STANDARD"
    arn = deployed.arn(deployed.loading)
    assert deployed.value(template.outputs["IngestMachine"]) == arn
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    (text,) = re.findall(r'\{"source": \["aws\.states"\].*?\}\}', page, re.DOTALL)
    pattern = json.loads(text.replace("IngestMachine", arn))
    for status, of, expected in (
        ("SUCCEEDED", arn, True),
        ("FAILED", arn, True),
        ("RUNNING", arn, False),
        ("FAILED", arn.removesuffix("-ingest"), False),
    ):
        event = {
            "source": "aws.states",
            "detail-type": "Step Functions Execution Status Change",
            "detail": {"status": status, "stateMachineArn": of, "name": "sources-default-1"},
        }
        assert matches(pattern, event) is expected, event
