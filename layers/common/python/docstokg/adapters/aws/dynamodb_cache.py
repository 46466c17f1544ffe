"""DynamoDB response cache."""

import time

from docstokg.adapters.aws.clients import DynamoDbTable
from docstokg.domain.deadline import Deadline


class DynamoDbCache(DynamoDbTable):
    """A `ResponseCache`; table key `key`, time to live `expires_at`."""

    def get(self, key: str, deadline: Deadline) -> tuple[str, str] | None:
        """Return (request hash, body) of an entry that has not expired, or None."""
        item = self._request("get_item", deadline, Key={"key": {"S": key}}).get("Item")
        if item is None or int(item["expires_at"]["N"]) <= time.time():
            return None
        return item["request_hash"]["S"], item["body"]["S"]

    def put(self, key: str, request_hash: str, body: str, ttl_s: int, deadline: Deadline) -> None:
        """Store a body for `ttl_s` seconds, replacing by key."""
        item = {
            "key": {"S": key},
            "request_hash": {"S": request_hash},
            "body": {"S": body},
            "expires_at": {"N": str(int(time.time()) + ttl_s)},
        }
        self._request("put_item", deadline, Item=item)
