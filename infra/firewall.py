"""The API's web ACL."""

from aws_cdk import aws_wafv2 as wafv2
from constructs import Construct

from docstokg.contracts import Json
from docstokg.contracts.routes import route_of
from infra.base import Stack
from infra.removal import log_group, log_group_arn
from infra.templates import gateway_problem

# The common rule set refuses bodies over 8 KiB and quoted markup.
MANAGED = ("AWSManagedRulesAmazonIpReputationList", "AWSManagedRulesKnownBadInputsRuleSet")


RATE = "rate"
SECRET_HEADERS = ("authorization", "x-api-key", "x-amz-security-token", "cookie")


def firewall(stack: Stack, name: str, requests_per_5_minutes: int, stage_arn: str) -> str:
    """Create a regional web ACL and return its name in metrics.

    It has a rate rule (429 with a problem body) and AWS's lists. Refused requests are logged
    without credentials and query strings; bodies never are.
    """
    construct = Construct(stack, "Firewall")
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
        construct,
        "Acl",
        name=name,
        scope="REGIONAL",
        default_action={"allow": {}},
        custom_response_bodies={
            "throttled": {"contentType": "APPLICATION_JSON", "content": problem}
        },
        rules=[
            {
                "name": RATE,
                "priority": 0,
                "action": {"block": {"customResponse": refusal}},
                "statement": {"rateBasedStatement": flood},
                "visibilityConfig": _visible(RATE),
            },
            *(_managed(number, rules) for number, rules in enumerate(MANAGED, 1)),
        ],
        visibility_config=_visible(name),
    )
    wafv2.CfnWebACLAssociation(construct, "Api", resource_arn=stage_arn, web_acl_arn=acl.attr_arn)
    # WAF takes groups with this prefix only, and their ARN without `:*`.
    group_name = f"aws-waf-logs-{name}"
    group = log_group(construct, "Logs", stack, group_name)
    blocked = {"ActionCondition": {"Action": "BLOCK"}}
    log_filter = {"Behavior": "KEEP", "Conditions": [blocked], "Requirement": "MEETS_ANY"}
    logged = wafv2.CfnLoggingConfiguration(
        construct,
        "Logging",
        resource_arn=acl.attr_arn,
        log_destination_configs=[log_group_arn(stack, group_name)],
        logging_filter={"DefaultBehavior": "DROP", "Filters": [log_filter]},
        redacted_fields=[
            *({"singleHeader": {"Name": header}} for header in SECRET_HEADERS),
            {"queryString": {}},
        ],
    )
    logged.node.add_dependency(group)
    return name


def _managed(priority: int, name: str) -> Json:
    """Return a managed rule; BadInputs exempts loads, which may quote attacks."""
    rules: Json = {"vendorName": "AWS", "name": name}
    if "BadInputs" in name:
        loading = {
            "fieldToMatch": {"uriPath": {}},
            "positionalConstraint": "ENDS_WITH",
            "searchString": route_of("load").path,
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


def _visible(name: str) -> Json:
    # Sampled requests would keep client text in the console.
    return {"cloudWatchMetricsEnabled": True, "metricName": name, "sampledRequestsEnabled": False}
