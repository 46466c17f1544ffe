"""S3 object store."""

from collections.abc import Sequence
from typing import Any

from docstokg.adapters.aws.clients import AwsService, Warmed
from docstokg.domain.deadline import Deadline
from docstokg.errors import Misconfigured
from docstokg.ports import StoredObject

LIST_S = 10.0
# For an object of some hundred MB between a function and its own region.
OBJECT_S = 60.0
PAGE = 1000
ABSENT = ("NoSuchKey", "404")
REFUSED = ("AccessDenied", "403")


class S3Objects(Warmed):
    """An `ObjectStore` on a bucket."""

    def __init__(self, bucket: str) -> None:
        if not bucket:
            raise Misconfigured("DOCSTOKG_INGEST_URL names no bucket: s3://NAME")
        self._bucket = bucket
        self._service = AwsService("s3", read_timeout_s=OBJECT_S)

    def list(self, prefix: str, after: str = "") -> Sequence[StoredObject]:
        """Return at most 1,000 objects below `prefix` after the key `after`, in order of keys."""
        position = {"StartAfter": after} if after else {}
        which = {"Bucket": self._bucket, "Prefix": prefix, "MaxKeys": PAGE, **position}
        page = self._service.request("list_objects_v2", Deadline.after(LIST_S), **which)
        return [
            StoredObject(
                item["Key"], item["Size"], item["ETag"].strip('"'), item["LastModified"].timestamp()
            )
            for item in page.get("Contents", ())
        ]

    def get(self, key: str) -> bytes:
        """Return an object; raise KeyError if it is missing."""
        body = self._service.call(lambda client: self._read(client, key), Deadline.after(OBJECT_S))
        if body is None:
            raise KeyError(key)
        return body

    def put(self, key: str, body: bytes) -> None:
        """Write an object, replacing by key."""
        self._service.request(
            "put_object", Deadline.after(OBJECT_S), Bucket=self._bucket, Key=key, Body=body
        )

    def delete(self, key: str) -> None:
        """Remove an object if it exists; the bucket keeps its version for a while."""
        self._service.request("delete_object", Deadline.after(LIST_S), Bucket=self._bucket, Key=key)

    def _read(self, client: Any, key: str) -> bytes | None:
        try:
            body: bytes = client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except client.exceptions.ClientError as refusal:
            code = refusal.response["Error"]["Code"]
            # With permission for prefixes only, S3 reports a missing key as forbidden.
            if code in ABSENT or (code in REFUSED and not self._lists(client, key)):
                return None
            raise
        return body

    def _lists(self, client: Any, key: str) -> bool:
        page = client.list_objects_v2(Bucket=self._bucket, Prefix=key, MaxKeys=1)
        return any(item["Key"] == key for item in page.get("Contents", ()))
