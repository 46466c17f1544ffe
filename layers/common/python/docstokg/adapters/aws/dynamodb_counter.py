"""DynamoDB counters."""

import time

from docstokg.adapters.aws.clients import DynamoDbTable
from docstokg.domain.deadline import Deadline


class DynamoDbCounter(DynamoDbTable):
    """A `CallCounter`; table key `name`, time to live `expires_at`."""

    def add(self, key: str, ttl_s: int, deadline: Deadline) -> int:
        """Increment a counter, return its value; each call renews its life of `ttl_s` seconds."""
        until = str(int(time.time()) + ttl_s)
        answer = self._request(
            "update_item",
            deadline,
            Key={"name": {"S": key}},
            UpdateExpression="ADD taken :one SET expires_at = :until",
            ExpressionAttributeValues={":one": {"N": "1"}, ":until": {"N": until}},
            ReturnValues="UPDATED_NEW",
        )
        return int(answer["Attributes"]["taken"]["N"])
