"""Data key."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.removal import log_group_arn, removal
from infra.rights import own_service


def data_key(scope: Construct, *, retain: bool) -> kms.Key:
    """Return the environment's key, rotated yearly, usable by CloudWatch Logs and EventBridge."""
    stack = cdk.Stack.of(scope)
    key = kms.Key(
        Construct(scope, "DataKey"),
        "Key",
        description="DocsToKG: cache, circuit, queues, alarms and logs of one environment",
        enable_key_rotation=True,
        removal_policy=removal(retain=retain),
        pending_window=cdk.Duration.days(30 if retain else 7),
    )
    ours = {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": log_group_arn(stack, "*")}}
    service = iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com", conditions=ours)
    uses = ("Encrypt", "Decrypt", "GenerateDataKey*", "DescribeKey")
    key.grant(service, *(f"kms:{use}" for use in uses))
    key.grant(own_service(stack, "events"), "kms:Decrypt", "kms:GenerateDataKey*")
    return key
