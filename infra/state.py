"""Tables with a TTL."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.base import Stack
from infra.nag import acknowledge
from infra.rights import use_key

READ_AND_WRITE = [
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
]
NO_BACKUP = "Every item expires within the hour and is made again by the next request."


class State(Construct):
    """Two on-demand tables."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack, "State")
        self._key = stack.key
        self.cache = self._table("ResponseCache", "key")
        self.circuit = self._table("Circuit", "name")

    def grant(
        self, role: iam.Role, table: dynamodb.Table, actions: Sequence[str], keys: str = ""
    ) -> None:
        """Allow `role` these actions on one table, and its key.

        `keys`: pattern of the allowed items, "" for all.
        """
        named = {"ForAnyValue:StringLike": {"dynamodb:LeadingKeys": [keys]}} if keys else None
        done = [f"dynamodb:{action}" for action in actions]
        arns = [table.table_arn]
        role.add_to_policy(iam.PolicyStatement(actions=done, resources=arns, conditions=named))
        use_key(role, self._key, "dynamodb", READ_AND_WRITE)

    def _table(self, construct_id: str, partition: str) -> dynamodb.Table:
        table = dynamodb.Table(
            self,
            construct_id,
            partition_key=dynamodb.Attribute(name=partition, type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=self._key,
            time_to_live_attribute="expires_at",
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        acknowledge(table, NO_BACKUP, "AwsSolutions-DDB3")
        return table
