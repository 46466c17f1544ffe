"""The bucket that documents are loaded through: what is sent, and what a load makes of it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.credentials import use_key
from infra.nag import acknowledge, logical_id
from infra.removal import removal

SOURCES, POSTED, INBOX, RUNS = "sources/", "posted/", "inbox/", "runs/"
"""Documents by namespace; what was said of them when they were posted; one request's; a load's."""

KEPT_RUN_DAYS = 90  # as long as Step Functions remembers an execution
KEPT_OLD_DAYS = 30
NO_ACCESS_LOG = (
    "Five functions and the operators who load reach it, and each load leaves a report; "
    "CloudTrail's data events are the account's to switch on."
)
ANY_OBJECT = "Documents are named by who loads them, and the objects of a load by its shards."


class Intake(Construct):
    """Private, versioned, TLS only, under our key; a load's own objects go after 90 days."""

    def __init__(self, scope: Construct, construct_id: str, *, key: kms.IKey, retain: bool) -> None:
        super().__init__(scope, construct_id)
        self._key = key
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            encryption=s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            enforce_ssl=True,
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    noncurrent_version_expiration=cdk.Duration.days(KEPT_OLD_DAYS),
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
                ),
                *(
                    s3.LifecycleRule(
                        prefix=prefix,
                        expiration=cdk.Duration.days(KEPT_RUN_DAYS),
                        noncurrent_version_expiration=cdk.Duration.days(1),
                    )
                    for prefix in (RUNS, INBOX)
                ),
            ],
            removal_policy=removal(retain=retain),
        )
        acknowledge(self.bucket, {"AwsSolutions-S1": NO_ACCESS_LOG})
        self.sources = self._operators()

    def grant(
        self,
        role: iam.Role,
        region: str,
        *,
        reads: tuple[str, ...] = (),
        writes: tuple[str, ...] = (),
        deletes: tuple[str, ...] = (),
        lists: tuple[str, ...] = (),
    ) -> None:
        """Let `role` do that below these prefixes, and use the key through S3 for it."""
        for action, prefixes in (
            ("s3:GetObject", reads),
            ("s3:PutObject", writes),
            ("s3:DeleteObject", deletes),
        ):
            if prefixes:
                role.add_to_policy(self._objects([action], prefixes))
        if lists:
            role.add_to_policy(self._listing(lists))
        if reads or writes:
            actions = ["kms:Decrypt"] if reads else []
            # A part of a large object is written with the key that the ones before it have.
            actions += ["kms:Decrypt", "kms:GenerateDataKey"] if writes else []
            use_key(role, self._key, "s3", region, sorted(set(actions)))
        self.acknowledge(role, {*reads, *writes, *deletes})

    def acknowledge(self, construct: Construct, prefixes: set[str]) -> None:
        """Record why rights below a prefix end with a star."""
        bucket = f"<{logical_id(self.bucket)}.Arn>"
        if cdk.Stack.of(construct) is not cdk.Stack.of(self):
            bucket = f"<{cdk.Stack.of(self).stack_name}:{logical_id(self.bucket)}.Arn>"
        acknowledge(
            construct,
            {
                f"AwsSolutions-IAM5[Resource::{bucket}/{prefix}*]": ANY_OBJECT
                for prefix in sorted(prefixes)
            },
        )

    def _objects(self, actions: list[str], prefixes: tuple[str, ...]) -> iam.PolicyStatement:
        resources = [self.bucket.arn_for_objects(f"{prefix}*") for prefix in prefixes]
        return iam.PolicyStatement(actions=actions, resources=resources)

    def _listing(self, prefixes: tuple[str, ...]) -> iam.PolicyStatement:
        return iam.PolicyStatement(
            actions=["s3:ListBucket"],
            resources=[self.bucket.bucket_arn],
            conditions={"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in prefixes]}},
        )

    def _operators(self) -> iam.ManagedPolicy:
        """What an operator attaches to the role that copies folders into the bucket."""
        region = cdk.Stack.of(self).region
        policy = iam.ManagedPolicy(
            self,
            "Sources",
            description="DocsToKG: put documents of one environment into its bucket",
            statements=[
                self._objects(["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], (SOURCES,)),
                self._objects(["s3:GetObject"], (RUNS,)),
                self._listing((SOURCES, RUNS)),
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:GenerateDataKey"],
                    resources=[self._key.key_arn],
                    conditions={"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}},
                ),
            ],
        )
        self.acknowledge(policy, {SOURCES, RUNS})
        return policy
