"""Bucket of the snapshots of earlier releases."""

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.base import Stack
from infra.nag import acknowledge
from infra.removal import removal
from infra.rights import allow, service_role, use_key

SNAPSHOTS = "snapshots"
NO_ACCESS_LOG = (
    "Only the search service writes here and only while a snapshot is taken or restored, which "
    "the domain's own application log tells."
)
ANY_OBJECT = "A snapshot is many objects whose names the search service chooses, below one prefix."


def private_bucket(
    scope: Construct, stack: Stack, unlogged: str, *rules: s3.LifecycleRule
) -> s3.Bucket:
    """Return a bucket: private, versioned, TLS only, our key.

    Old versions expire after 30 days. `unlogged`: the reason.
    """
    old = s3.LifecycleRule(
        noncurrent_version_expiration=cdk.Duration.days(30),
        abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
    )
    bucket = s3.Bucket(
        scope,
        "Bucket",
        encryption=s3.BucketEncryption.KMS,
        encryption_key=stack.key,
        bucket_key_enabled=True,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=True,
        versioned=True,
        lifecycle_rules=[old, *rules],
        removal_policy=removal(retain=stack.target.retain_data),
    )
    acknowledge(bucket, unlogged, "AwsSolutions-S1")
    return bucket


class Storage(Construct):
    """The bucket and the service's role."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(stack, "Storage")
        self.bucket = private_bucket(self, stack, NO_ACCESS_LOG)
        self.snapshots = service_role(self, "Snapshots", "es")
        allow(self.snapshots, ["s3:ListBucket"], self.bucket.bucket_arn)
        objects = self.bucket.arn_for_objects(f"{SNAPSHOTS}/*")
        actions = ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
        allow(self.snapshots, actions, objects, stars=ANY_OBJECT)
        use_key(self.snapshots, stack.key, "s3", ["kms:Decrypt", "kms:GenerateDataKey"])
