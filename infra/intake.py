"""Bucket of documents and loads."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.base import Stack
from infra.nag import shared_arn
from infra.rights import add, allow, key_use, policy_of
from infra.storage import private_bucket

# Documents by namespace; metadata of posted ones; uploads; objects of a load.
SOURCES, POSTED, INBOX, RUNS = "sources/", "posted/", "inbox/", "runs/"
# Model output by text, and the versions of the objects that the register has.
ENCODINGS, REGISTER = "encodings/", "register/"

ACTIONS = (
    ["s3:GetObject"],
    ["s3:PutObject"],
    ["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"],
)
KEPT_RUN_DAYS = 90  # as long as Step Functions keeps an execution
NO_ACCESS_LOG = (
    "Five functions and the operators who load reach it, and each load leaves a report; "
    "CloudTrail's data events are the account's to switch on."
)
ANY_OBJECT = "Documents are named by who loads them, and the objects of a load by its shards."


class Intake(Construct):
    """The bucket; reports expire after 90 days."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack, "Intake")
        self._key = stack.key
        self.bucket = private_bucket(
            self,
            stack,
            NO_ACCESS_LOG,
            # The only copy of sent documents: `close` deletes it with the document.
            *(
                s3.LifecycleRule(
                    prefix=prefix,
                    expiration=cdk.Duration.days(KEPT_RUN_DAYS) if prefix == RUNS else None,
                    noncurrent_version_expiration=cdk.Duration.days(1),
                )
                for prefix in (RUNS, INBOX, POSTED, ENCODINGS, REGISTER)
            ),
        )
        if stack.target.load_on_change:
            # The construct's own option adds a function of CDK's to the stack.
            raw = self.bucket.node.default_child
            assert isinstance(raw, s3.CfnBucket)
            on = s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
            raw.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
                event_bridge_configuration=on
            )
        self._shared = shared_arn(self, "IntakeBucketArn", self.bucket.bucket_arn)
        self.sources = self._operators()

    def rights(
        self,
        *,
        reads: tuple[str, ...] = (),
        writes: tuple[str, ...] = (),
        parts: tuple[str, ...] = (),
        lists: tuple[str, ...] = (),
        arn: str = "",
    ) -> list[iam.PolicyStatement]:
        """Return the rights of a role of the other stack below these prefixes, with the key.

        `parts`: prefixes with multipart uploads. `arn`: the bucket's, for a role of this stack.
        """
        arn = arn or self._shared
        statements = [
            iam.PolicyStatement(actions=actions, resources=[f"{arn}/{name}*" for name in names])
            for actions, names in zip(ACTIONS, (reads, writes, parts), strict=True)
            if names
        ]
        if lists:
            below = {"StringLike": {"s3:prefix": [f"{name}*" for name in lists]}}
            statements.append(
                iam.PolicyStatement(actions=["s3:ListBucket"], resources=[arn], conditions=below)
            )
        # A multipart upload also needs to decrypt.
        actions = ["kms:Decrypt", "kms:GenerateDataKey"] if writes else ["kms:Decrypt"]
        through = f"s3.{cdk.Stack.of(self).region}.amazonaws.com"
        return [*statements, key_use(self._key, through, actions)]

    def let_delete(self, role: iam.Role, *below: str) -> None:
        """Allow a role of the other stack to delete objects with keys like `below`."""
        arns = (f"{self._shared}/{name}" for name in below)
        allow(role, ["s3:DeleteObject"], *arns, stars=ANY_OBJECT)

    def _operators(self) -> iam.ManagedPolicy:
        arn, both = self.bucket.bucket_arn, (SOURCES, REGISTER)
        rights = self.rights(reads=(*both, RUNS), writes=both, lists=(*both, RUNS, POSTED), arn=arn)
        # A rebuild runs uploads again, whose reports and versions are then not true.
        keys = (f"{SOURCES}*", f"{RUNS}*/report.json", f"{REGISTER}*")
        removing = iam.PolicyStatement(
            actions=["s3:DeleteObject"],
            resources=[self.bucket.arn_for_objects(key) for key in keys],
        )
        purpose = "put documents of one environment into its bucket"
        return policy_of(self, "Sources", purpose, [*rights, removing], ANY_OBJECT)


# Prefixes that a stage reads and lists, as in loading/run/stages.py; others use RUNS. Optional
# objects are listed too: S3 answers 403 otherwise. Each stage writes below RUNS, and below
# the prefixes of STAGE_WRITES.
STAGE_OBJECTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ingest_read": ((SOURCES, INBOX, POSTED, REGISTER), (SOURCES, INBOX, POSTED, REGISTER)),
    "ingest_encode": ((RUNS, ENCODINGS), (RUNS, ENCODINGS)),
    "ingest_names": ((RUNS, ENCODINGS), (RUNS, ENCODINGS)),
    "ingest_resolve": ((POSTED, RUNS), (SOURCES, INBOX, POSTED, RUNS, ENCODINGS)),
    # The stage `store` also encodes and resolves a small upload.
    "ingest_close": ((POSTED, RUNS, ENCODINGS), (SOURCES, INBOX, POSTED, RUNS, ENCODINGS)),
}
STAGE_WRITES: Mapping[str, tuple[str, ...]] = {
    "ingest_encode": (ENCODINGS,),
    "ingest_names": (ENCODINGS,),
    "ingest_close": (ENCODINGS, REGISTER),
}
STAGE_DELETES: Mapping[str, tuple[str, ...]] = {
    "ingest_encode": (ENCODINGS,),
    "ingest_names": (ENCODINGS,),
    "ingest_resolve": (ENCODINGS, REGISTER),
    # A run's end deletes its lease, texts, and rejected uploads.
    "ingest_close": (INBOX, POSTED, RUNS, ENCODINGS, REGISTER),
}


def grant_stage(name: str, role: iam.Role, intake: Intake) -> None:
    """Grant a stage access to its objects only."""
    reads, lists = STAGE_OBJECTS.get(name, ((RUNS,), (RUNS,)))
    writes = (RUNS, *STAGE_WRITES.get(name, ()))
    add(role, intake.rights(reads=reads, writes=writes, lists=lists), ANY_OBJECT)
    if deletes := STAGE_DELETES.get(name):
        intake.let_delete(role, *(f"{prefix}*" for prefix in deletes))


def grant_posting(role: iam.Role, intake: Intake) -> None:
    """Allow the documents function to post, read reports, and release leases."""
    intake.let_delete(role, f"{RUNS}leases/*")
    add(role, intake.rights(reads=(RUNS,), writes=(INBOX, POSTED), lists=(RUNS,)), ANY_OBJECT)
