"""What is refused in front of the API: floods from one address, and known bad callers."""

from __future__ import annotations

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
        acl = wafv2.CfnWebACL(
            self,
            "Acl",
            name=name,
            scope="REGIONAL",
            default_action=wafv2.CfnWebACL.DefaultActionProperty(allow={}),
            custom_response_bodies={
                "throttled": wafv2.CfnWebACL.CustomResponseBodyProperty(
                    content_type="APPLICATION_JSON", content=problem
                )
            },
            rules=[
                wafv2.CfnWebACL.RuleProperty(
                    name="rate",
                    priority=0,
                    action=wafv2.CfnWebACL.RuleActionProperty(
                        block=wafv2.CfnWebACL.BlockActionProperty(
                            custom_response=wafv2.CfnWebACL.CustomResponseProperty(
                                response_code=429,
                                custom_response_body_key="throttled",
                                response_headers=[
                                    wafv2.CfnWebACL.CustomHTTPHeaderProperty(
                                        name="Retry-After", value="300"
                                    )
                                ],
                            )
                        )
                    ),
                    statement=wafv2.CfnWebACL.StatementProperty(
                        rate_based_statement=wafv2.CfnWebACL.RateBasedStatementProperty(
                            aggregate_key_type="IP", limit=requests_per_5_minutes
                        )
                    ),
                    visibility_config=_visible("rate"),
                ),
                *(_managed(number, rules) for number, rules in enumerate(MANAGED, 1)),
            ],
            visibility_config=_visible(name),
        )
        self.acl = acl
        wafv2.CfnWebACLAssociation(self, "Api", resource_arn=stage_arn, web_acl_arn=acl.attr_arn)


def _elsewhere() -> wafv2.CfnWebACL.StatementProperty:
    """Requests of every route but the one that loads: a document may quote an attack."""
    (path,) = (route.path for route in ROUTES if route.name == "load")
    loading = wafv2.CfnWebACL.StatementProperty(
        byte_match_statement=wafv2.CfnWebACL.ByteMatchStatementProperty(
            field_to_match=wafv2.CfnWebACL.FieldToMatchProperty(uri_path={}),
            positional_constraint="ENDS_WITH",
            search_string=path,
            text_transformations=[
                wafv2.CfnWebACL.TextTransformationProperty(priority=0, type="NONE")
            ],
        )
    )
    return wafv2.CfnWebACL.StatementProperty(
        not_statement=wafv2.CfnWebACL.NotStatementProperty(statement=loading)
    )


def _managed(priority: int, name: str) -> wafv2.CfnWebACL.RuleProperty:
    return wafv2.CfnWebACL.RuleProperty(
        name=name,
        priority=priority,
        override_action=wafv2.CfnWebACL.OverrideActionProperty(none={}),
        statement=wafv2.CfnWebACL.StatementProperty(
            managed_rule_group_statement=wafv2.CfnWebACL.ManagedRuleGroupStatementProperty(
                vendor_name="AWS",
                name=name,
                scope_down_statement=_elsewhere() if "BadInputs" in name else None,
            )
        ),
        visibility_config=_visible(name),
    )


def _visible(name: str) -> wafv2.CfnWebACL.VisibilityConfigProperty:
    # Sampled requests would keep client text in the console.
    return wafv2.CfnWebACL.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=False
    )
