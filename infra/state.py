"""Short-lived state outside the executions: cached responses and open circuits, both with a TTL."""

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.nag import acknowledge
from infra.rights import allow, use_key

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
    """Two on-demand tables; losing either costs time, never a request."""

    def __init__(self, scope: Construct, construct_id: str, *, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self._key = key
        self.cache = self._table("ResponseCache", "key", key)
        self.circuit = self._table("Circuit", "name", key)

    def grant(self, role: iam.Role, table: dynamodb.Table, actions: list[str]) -> None:
        """Let `role` do `actions` on one table, and use the key, which the caller's rights open."""
        allow(role, [f"dynamodb:{action}" for action in actions], table.table_arn)
        use_key(role, self._key, "dynamodb", READ_AND_WRITE)

    def _table(self, construct_id: str, partition: str, key: kms.IKey) -> dynamodb.Table:
        table = dynamodb.Table(
            self,
            construct_id,
            partition_key=dynamodb.Attribute(name=partition, type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            encryption=dynamodb.TableEncryption.CUSTOMER_MANAGED,
            encryption_key=key,
            time_to_live_attribute="expires_at",
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        acknowledge(table, NO_BACKUP, "AwsSolutions-DDB3")
        return table
