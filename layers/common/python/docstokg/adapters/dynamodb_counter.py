"""Counts in a DynamoDB table, so that a limit per caller holds across sandboxes."""

import time

from docstokg.adapters.aws import AwsService


class DynamoDbCounter:
    """The CallCounter port on a table with the key `name` and the time to live `expires_at`."""

    def __init__(
        self, table: str, region: str | None = None, service: AwsService | None = None
    ) -> None:
        self._table = table
        self._service = service or AwsService("dynamodb", region)

    def warm(self) -> None:
        """Make the client while the process starts."""
        self._service.warm()

    def add(self, key: str, ttl_s: int, timeout_s: float) -> int:
        """Add one to a count that is kept for `ttl_s` seconds; the new count."""
        until = str(int(time.time()) + ttl_s)
        answer = self._service.call(
            lambda client: client.update_item(
                TableName=self._table,
                Key={"name": {"S": key}},
                UpdateExpression="ADD taken :one SET expires_at = :until",
                ExpressionAttributeValues={":one": {"N": "1"}, ":until": {"N": until}},
                ReturnValues="UPDATED_NEW",
            ),
            timeout_s,
        )
        return int(answer["Attributes"]["taken"]["N"])
