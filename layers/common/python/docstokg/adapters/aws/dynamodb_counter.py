"""Counts in a DynamoDB table, so that a limit per caller holds across sandboxes."""

import time

from docstokg.adapters.aws.clients import DynamoDbTable


class DynamoDbCounter(DynamoDbTable):
    """The CallCounter port on a table with the key `name` and the time to live `expires_at`."""

    def add(self, key: str, ttl_s: int, timeout_s: float) -> int:
        """Add one to a count that is kept for `ttl_s` seconds; the new count."""
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
