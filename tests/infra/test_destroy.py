"""`make destroy` ends: what CloudFormation cannot delete by itself is taken out of its way."""

import json
from typing import Any

import pytest

from infra.destroy import BUCKETS, POLICIES, destroy
from infra.settings import environment
from tests.infra.conftest import Template

KEPT = "RetainExceptOnCreate"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
ALLOW = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}],
}


def policy(output: str) -> dict[str, Any]:
    return {
        "Resources": {
            output: {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"PolicyDocument": ALLOW}}
        },
        "Outputs": {output: {"Value": {"Ref": output}}},
    }


def with_bucket(body: dict[str, Any]) -> dict[str, Any]:
    body["Resources"]["Documents"] = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "Delete",
        "Properties": {"BucketName": "documents-of-dev"},
    }
    body["Outputs"]["DocumentBucket"] = {"Value": {"Ref": "Documents"}}
    return body


@pytest.fixture
def used_account(aws: Any) -> Any:
    """Both stacks of dev in small, in use: policies attached, an object in two versions."""
    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(
        StackName="docstokg-dev", TemplateBody=json.dumps(policy("CallerPolicy"))
    )
    data = with_bucket(policy("LoaderPolicy"))
    cloudformation.create_stack(StackName="docstokg-dev-data", TemplateBody=json.dumps(data))
    iam = aws.client("iam")
    iam.create_role(RoleName="operator", AssumeRolePolicyDocument=TRUST)
    iam.create_user(UserName="carla")
    iam.create_group(GroupName="readers")
    for stack in ("docstokg-dev", "docstokg-dev-data"):
        for output in cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["Outputs"]:
            if output["OutputKey"] in POLICIES:
                arn = output["OutputValue"]
                iam.attach_role_policy(RoleName="operator", PolicyArn=arn)
                iam.attach_user_policy(UserName="carla", PolicyArn=arn)
                iam.attach_group_policy(GroupName="readers", PolicyArn=arn)
    s3 = aws.client("s3")
    # moto takes no versioning from a template.
    s3.put_bucket_versioning(
        Bucket="documents-of-dev", VersioningConfiguration={"Status": "Enabled"}
    )
    for text in (b"one", b"two"):
        s3.put_object(Bucket="documents-of-dev", Key="sources/a.md", Body=text)
    s3.put_object(Bucket="documents-of-dev", Key="sources/b.md", Body=b"b")
    s3.delete_object(Bucket="documents-of-dev", Key="sources/b.md")
    return aws


def stacks(aws: Any) -> list[str]:
    return [
        stack["StackName"] for stack in aws.client("cloudformation").describe_stacks()["Stacks"]
    ]


def test_an_environment_that_was_used_goes(used_account: Any) -> None:
    lines: list[str] = []
    destroy(environment("dev"), used_account, lines.append)
    assert stacks(used_account) == []
    iam = used_account.client("iam")
    assert iam.list_attached_role_policies(RoleName="operator")["AttachedPolicies"] == []
    assert iam.list_policies(Scope="Local", OnlyAttached=True)["Policies"] == []
    assert used_account.client("s3").list_buckets()["Buckets"] == []
    assert "4 objects of documents-of-dev deleted" in lines
    assert sum("operator" in line for line in lines) == 2


def test_it_goes_on_where_it_was_ended(used_account: Any) -> None:
    destroy(environment("dev"), used_account, lambda text: None)
    lines: list[str] = []
    destroy(environment("dev"), used_account, lines.append)
    assert lines == ["docstokg-dev is not there", "docstokg-dev-data is not there"]


def test_no_resource_of_a_template_blocks_stack_deletion(template: Template) -> None:
    """What blocks a deletion is either kept on purpose or named to what removes it."""
    named = [template.outputs[name]["Ref"] for name in POLICIES if name in template.outputs]
    assert set(named) == set(template.all("AWS::IAM::ManagedPolicy"))
    for name in template.all("AWS::S3::Bucket"):
        retained = template.resources[name]["DeletionPolicy"] == KEPT
        assert retained == template.ours.retain_data
        assert {"Ref": name} in [template.outputs[output] for output in BUCKETS]
    versions = template.all("AWS::AppConfig::HostedConfigurationVersion")
    assert versions
    for name in versions:
        assert template.resources[name]["DeletionPolicy"] == "Delete", name
    profile = template.outputs["FlagsProfile"]["Fn::Join"][1]
    assert [next(iter(part)) for part in profile[::2]] == ["Ref"] * 3
    assert {part["Ref"] for part in profile[::2]} >= {
        *template.all("AWS::AppConfig::Application"),
        *template.all("AWS::AppConfig::ConfigurationProfile"),
    }
