"""Small findings of the review of the templates: m3, m4, m10, m11 and m15."""

import json
import re

from infra.specs import FUNCTIONS
from tests.infra.conftest import Template
from tests.infra.deployed import Deployed


def test_flags_are_fetched_while_a_sandbox_starts(template: Template) -> None:
    """m3: the agent's first answer is there before the first request asks for it."""
    deployed = Deployed(template)
    for spec in FUNCTIONS:
        if "flags" in spec.uses:
            variables = deployed.variables(spec.name)
            application, space, profile = variables["DOCSTOKG_APPCONFIG"].split("/")
            path = f"/applications/{application}/environments/{space}/configurations/{profile}"
            assert variables["AWS_APPCONFIG_EXTENSION_PREFETCH_LIST"] == path, spec.name


def test_flag_changes_are_watched_by_an_alarm(template: Template) -> None:
    """m4: AppConfig rolls a deployment of flags back when one of its monitors fires."""
    (watched,) = template.only("AWS::AppConfig::Environment")["Monitors"]
    (alarm,) = (
        name
        for name, alarm in template.all("AWS::CloudWatch::Alarm").items()
        if alarm["AlarmName"].endswith("degraded")
    )
    assert watched["AlarmArn"] == {"Fn::GetAtt": [alarm, "Arn"]}


def test_the_gateways_log_is_created_with_our_key(template: Template) -> None:
    """m10: by the name the gateway writes to, before its stage is there."""
    (name,) = template.all("AWS::ApiGateway::RestApi")
    ((logical, properties),) = (
        (logical, properties)
        for logical, properties in template.all("AWS::Logs::LogGroup").items()
        if "API-Gateway-Execution-Logs_" in json.dumps(properties.get("LogGroupName", ""))
    )
    stage = template.resource("AWS::ApiGateway::Stage")
    name_of_stage = stage["Properties"]["StageName"]
    parts = properties["LogGroupName"]["Fn::Join"][1]
    assert parts == ["API-Gateway-Execution-Logs_", {"Ref": name}, f"/{name_of_stage}"]
    assert properties["KmsKeyId"] and properties["RetentionInDays"]
    assert logical in stage["DependsOn"]


def test_the_account_log_role_outlives_its_environment(template: Template) -> None:
    """m11: one setting for all of an account: deleting one stack must not mute the others."""
    account = template.resource("AWS::ApiGateway::Account")
    role = account["Properties"]["CloudWatchRoleArn"]["Fn::GetAtt"][0]
    policies = {account["DeletionPolicy"], template.resources[role]["DeletionPolicy"]}
    assert policies <= {"Retain", "RetainExceptOnCreate"}


def test_the_firewall_has_amazon_lists_behind_its_rule(template: Template) -> None:
    """m15: addresses known for attacks, and input that is never meant well."""
    acls = template.all("AWS::WAFv2::WebACL")
    assert bool(acls) == bool(template.ours.waf_requests_per_5_minutes)
    placed = template.all("AWS::WAFv2::WebACLAssociation").values()
    assert [association["WebACLArn"]["Fn::GetAtt"][0] for association in placed] == list(acls)
    assert all("/stages/" in json.dumps(association["ResourceArn"]) for association in placed)
    for acl in acls.values():
        rate, *lists = sorted(acl["Rules"], key=lambda rule: int(rule["Priority"]))
        assert "RateBasedStatement" in rate["Statement"]
        named = [rule["Statement"]["ManagedRuleGroupStatement"]["Name"] for rule in lists]
        kinds = [re.sub("AWSManagedRules|RuleSet|List", "", name) for name in named]
        assert kinds == ["AmazonIpReputation", "KnownBadInputs"]
        assert all(rule["OverrideAction"] == {"None": {}} for rule in lists)
        # A document may quote `${jndi:`; a question, a header or a path of any route may not.
        scopes = [
            rule["Statement"]["ManagedRuleGroupStatement"].get("ScopeDownStatement")
            for rule in lists
        ]
        assert scopes[0] is None
        (elsewhere,) = scopes[1]["NotStatement"].values()
        matched = elsewhere["ByteMatchStatement"]
        assert matched["SearchString"] == "/v1/documents"
        assert matched["PositionalConstraint"] == "ENDS_WITH"
