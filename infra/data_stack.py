"""The stack of an environment that keeps data: a failed deploy of code never touches it."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.alerts import alert_topic
from infra.base import Stack
from infra.credentials import Secrets
from infra.data import SearchData
from infra.encryption import data_key
from infra.intake import Intake
from infra.network import Network
from infra.settings import Environment
from infra.state import State
from infra.storage import Storage


class DataStack(Stack):
    """Key, secrets, index, tables, bucket, topic: made once, changed rarely."""

    def __init__(self, scope: Construct, target: Environment) -> None:
        super().__init__(scope, target, "what is kept", "-data")
        own = target.network
        self.network = Network(self, "Network", network=own) if own else None
        self.key = data_key(self, retain=target.retain_data)
        self.topic = alert_topic(self, self.key, target.alarm_email)
        self.secrets = Secrets(self)
        self.state = State(self)
        self.search = SearchData(self, self.network)
        self.storage = Storage(self)
        # Who registers the repository of snapshots gives the domain this one role.
        roles = [self.storage.snapshots.role_arn]
        handing_over = iam.PolicyStatement(actions=["iam:PassRole"], resources=roles)
        self.search.loader.add_statements(handing_over)
        self.intake = Intake(self)
        cdk.CfnOutput(self, "IndexUrl", value=self.search.url)
        cdk.CfnOutput(self, "IndexName", value=target.index_name)
        cdk.CfnOutput(self, "LoaderPolicy", value=self.search.loader.managed_policy_arn)
        cdk.CfnOutput(self, "SnapshotBucket", value=self.storage.bucket.bucket_name)
        cdk.CfnOutput(self, "SnapshotRole", value=self.storage.snapshots.role_arn)
        cdk.CfnOutput(self, "DocumentBucket", value=self.intake.bucket.bucket_name)
        cdk.CfnOutput(self, "SourcesPolicy", value=self.intake.sources.managed_policy_arn)
        cdk.CfnOutput(self, "AlarmTopic", value=self.topic.topic_arn)
        for name, secret in self.secrets.by_name.items():
            cdk.CfnOutput(self, f"Secret{name.title().replace('_', '')}", value=secret.secret_arn)
