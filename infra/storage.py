"""A bucket for the index's own snapshots, and the role with which the domain writes them."""

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.nag import acknowledge, acknowledge_stars, logical_id
from infra.removal import removal
from infra.rights import allow, service_role, use_key

SNAPSHOTS = "snapshots"
NO_ACCESS_LOG = (
    "Only the search service writes here and only while a snapshot is taken or restored, which "
    "the domain's own application log tells."
)
ANY_OBJECT = "A snapshot is many objects whose names the search service chooses, below one prefix."


def private_bucket(
    scope: Construct, key: kms.IKey, unlogged: str, *rules: s3.LifecycleRule, retain: bool
) -> s3.Bucket:
    """Make a bucket: private, versioned, TLS only, under our key; old versions go after 30 days.

    `unlogged`: why it has no access log.
    """
    old = s3.LifecycleRule(
        noncurrent_version_expiration=cdk.Duration.days(30),
        abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
    )
    bucket = s3.Bucket(
        scope,
        "Bucket",
        encryption=s3.BucketEncryption.KMS,
        encryption_key=key,
        bucket_key_enabled=True,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=True,
        versioned=True,
        lifecycle_rules=[old, *rules],
        removal_policy=removal(retain=retain),
    )
    acknowledge(bucket, unlogged, "AwsSolutions-S1")
    return bucket


class Storage(Construct):
    """Private, versioned, TLS only, under our key."""

    def __init__(self, scope: Construct, construct_id: str, *, key: kms.IKey, retain: bool) -> None:
        super().__init__(scope, construct_id)
        self.bucket = private_bucket(self, key, NO_ACCESS_LOG, retain=retain)
        self.snapshots = service_role(self, "Snapshots", "es")
        allow(self.snapshots, ["s3:ListBucket"], self.bucket.bucket_arn)
        objects = self.bucket.arn_for_objects(f"{SNAPSHOTS}/*")
        allow(self.snapshots, ["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], objects)
        use_key(self.snapshots, key, "s3", ["kms:Decrypt", "kms:GenerateDataKey"])
        reported = f"<{logical_id(self.bucket)}.Arn>/{SNAPSHOTS}/*"
        acknowledge_stars(self.snapshots, ANY_OBJECT, reported)
