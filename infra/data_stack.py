"""Stack of the data."""

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.alerts import alert_topic
from infra.base import Stack, put_out
from infra.credentials import Secrets
from infra.data import SearchData
from infra.encryption import data_key
from infra.intake import Intake
from infra.network import Network
from infra.settings import Environment
from infra.state import State
from infra.storage import Storage


class DataStack(Stack):
    """Key, secrets, index, tables, bucket, topics."""

    def __init__(self, scope: Construct, target: Environment) -> None:
        super().__init__(scope, target, "what is kept", "-data")
        self.network = Network(self, target.network) if target.network else None
        self.key = data_key(self, retain=target.retain_data)
        self.topic = alert_topic(self, "Alerts", self.key, target.alarm_email)
        notified = target.notice_email or target.alarm_email
        self.notices = alert_topic(self, "Notices", self.key, notified)
        self.secrets = Secrets(self)
        self.state = State(self)
        self.search = SearchData(self, self.network)
        self.storage = Storage(self)
        # Passed to the domain to restore a snapshot of an earlier release by hand.
        roles = [self.storage.snapshots.role_arn]
        handing_over = iam.PolicyStatement(actions=["iam:PassRole"], resources=roles)
        self.search.loader.add_statements(handing_over)
        self.intake = Intake(self)
        put_out(
            self,
            IndexUrl=self.search.url,
            IndexName=target.index_name,
            LoaderPolicy=self.search.loader.managed_policy_arn,
            SnapshotBucket=self.storage.bucket.bucket_name,
            SnapshotRole=self.storage.snapshots.role_arn,
            SnapshotRemoval=f"aws s3 rm s3://{self.storage.bucket.bucket_name} --recursive",
            DocumentBucket=self.intake.bucket.bucket_name,
            SourcesPolicy=self.intake.sources.managed_policy_arn,
            AlarmTopic=self.topic.topic_arn,
            NoticeTopic=self.notices.topic_arn,
            **{
                f"Secret{name.title().replace('_', '')}": secret.secret_arn
                for name, secret in self.secrets.by_name.items()
            },
        )
