"""Traces through SQS."""

from docstokg.adapters.aws.clients import AwsService, Warmed
from docstokg.contracts.state import TraceMessage
from docstokg.domain.deadline import Deadline


class SqsTrace(Warmed):
    """A `TraceSink` on an SQS queue; its URL has the region."""

    def __init__(self, queue_url: str) -> None:
        self._queue_url = queue_url
        self._service = AwsService("sqs", _region(queue_url))

    def send(self, message: TraceMessage, deadline: Deadline) -> None:
        """Send one message, or raise within the timeout."""
        body = message.model_dump_json()
        self._service.request("send_message", deadline, QueueUrl=self._queue_url, MessageBody=body)


def _region(queue_url: str) -> str | None:
    parts = queue_url.partition("://")[2].split(".")
    return parts[1] if parts[0] == "sqs" and len(parts) > 2 else None
