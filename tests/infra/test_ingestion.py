"""Loading in AWS: the bucket, the machine, and what its functions may do."""

import json

import pytest

from tests.infra.conftest import Template

pytestmark = [pytest.mark.xdist_group("synth"), pytest.mark.timeout(900)]


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
    gone = {rule["Prefix"]: rule.get("ExpirationInDays") for rule in rules if "Prefix" in rule}
    # What was sent is kept as long as it is loaded; deleted, no older version outlives a day.
    assert gone == {"runs/": 90, "inbox/": None, "posted/": None}
    for rule in rules:
        if "Prefix" in rule:
            assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 1}
    (every,) = (rule for rule in rules if "Prefix" not in rule)
    assert every["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert "ExpirationInDays" not in every
    (policy,) = (
        given["PolicyDocument"]["Statement"]
        for given in template.all("AWS::S3::BucketPolicy").values()
        if given["Bucket"] == {"Ref": name}
    )
    assert [s["Effect"] for s in policy] == ["Deny"]
    assert policy[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    kept = "Delete" if template.name != "prod" else "RetainExceptOnCreate"
    assert template.resources[name]["DeletionPolicy"] == kept
