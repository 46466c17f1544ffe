"""A bucket in memory that pages as S3 does."""

import hashlib
from collections.abc import Mapping

from docstokg.ports import StoredObject

PAGE = 1000
BUCKET = "bucket"


class MemoryBucket:
    """Counts its pages, so that a test sees that more than one was read."""

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self.objects = dict(objects or {})
        self.pages = 0

    def list(self, prefix: str, after: str = "") -> list[StoredObject]:
        self.pages += 1
        # The copy is one step: threads write while others list.
        keys = sorted(
            (
                k
                for k in tuple(self.objects)
                if k.startswith(prefix) and k.encode() > after.encode()
            ),
            key=str.encode,
        )
        return [
            StoredObject(key, len(body), hashlib.md5(body).hexdigest(), 1.5)
            for key in keys[:PAGE]
            for body in [self.objects[key]]
        ]

    def get(self, key: str) -> bytes:
        return self.objects[key]

    def put(self, key: str, body: bytes) -> None:
        self.objects[key] = body

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)
