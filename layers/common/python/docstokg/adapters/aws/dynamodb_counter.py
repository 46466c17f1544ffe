"""Counters in DynamoDB."""

import time

from docstokg.adapters.aws.clients import DynamoDbTable


class DynamoDbCounter(DynamoDbTable):
    """A `CallCounter`; table key `name`, time to live `expires_at`."""

    def add(self, key: str, ttl_s: int, timeout_s: float) -> int:
        """Increment a counter that expires after `ttl_s` seconds; return the new value."""
        until = str(int(time.time()) + ttl_s)
        answer = self._ask(
            "update_item",
            timeout_s,
            Key={"name": {"S": key}},
            UpdateExpression="ADD taken :one SET expires_at = :until",
            ExpressionAttributeValues={":one": {"N": "1"}, ":until": {"N": until}},
            ReturnValues="UPDATED_NEW",
        )
        return int(answer["Attributes"]["taken"]["N"])
