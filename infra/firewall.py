"""What is refused in front of the API: floods from one address, and known bad callers."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_wafv2 as wafv2
from constructs import Construct

from docstokg.contracts.routes import ROUTES
from infra.templates import gateway_problem

# Not the common rule set: it refuses bodies over 8 KiB and questions that quote markup.
MANAGED = ("AWSManagedRulesAmazonIpReputationList", "AWSManagedRulesKnownBadInputsRuleSet")


class Firewall(Construct):
    """A regional web ACL: a rate rule, refused with 429 and a problem body, and AWS's own lists."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        requests_per_5_minutes: int,
        stage_arn: str,
    ) -> None:
        super().__init__(scope, construct_id)
        problem = gateway_problem(429, "throttled", "Too many requests from this address.").replace(
            '"$context.requestId"', '""'
        )
        refusal = {
            "responseCode": 429,
            "customResponseBodyKey": "throttled",
            "responseHeaders": [{"name": "Retry-After", "value": "300"}],
        }
        flood = {"aggregateKeyType": "IP", "limit": requests_per_5_minutes}
        acl = wafv2.CfnWebACL(
            self,
            "Acl",
            name=name,
            scope="REGIONAL",
            default_action={"allow": {}},
            custom_response_bodies={
                "throttled": {"contentType": "APPLICATION_JSON", "content": problem}
            },
            rules=[
                {
                    "name": "rate",
                    "priority": 0,
                    "action": {"block": {"customResponse": refusal}},
                    "statement": {"rateBasedStatement": flood},
                    "visibilityConfig": _visible("rate"),
                },
                *(_managed(number, rules) for number, rules in enumerate(MANAGED, 1)),
            ],
            visibility_config=_visible(name),
        )
        wafv2.CfnWebACLAssociation(self, "Api", resource_arn=stage_arn, web_acl_arn=acl.attr_arn)


def _managed(priority: int, name: str) -> dict[str, Any]:
    """One of AWS's lists; a document that is loaded may quote an attack."""
    rules: dict[str, Any] = {"vendorName": "AWS", "name": name}
    if "BadInputs" in name:
        (path,) = (route.path for route in ROUTES if route.name == "load")
        loading = {
            "fieldToMatch": {"uriPath": {}},
            "positionalConstraint": "ENDS_WITH",
            "searchString": path,
            "textTransformations": [{"priority": 0, "type": "NONE"}],
        }
        rules["scopeDownStatement"] = {
            "notStatement": {"statement": {"byteMatchStatement": loading}}
        }
    return {
        "name": name,
        "priority": priority,
        "overrideAction": {"none": {}},
        "statement": {"managedRuleGroupStatement": rules},
        "visibilityConfig": _visible(name),
    }


def _visible(name: str) -> dict[str, Any]:
    # Sampled requests would keep client text in the console.
    return {"cloudWatchMetricsEnabled": True, "metricName": name, "sampledRequestsEnabled": False}
