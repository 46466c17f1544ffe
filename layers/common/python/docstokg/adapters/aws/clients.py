"""AWS clients."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    NoCredentialsError,
    ReadTimeoutError,
)

from docstokg.adapters.bounded import within
from docstokg.domain.deadline import Deadline
from docstokg.errors import (
    DocsToKGError,
    Misconfigured,
    QuotaExceeded,
    Timeout,
    Unavailable,
    WrongAnswer,
)

Answer = TypeVar("Answer")
# Socket limits end a call that timed out, so that its thread does not stay.
SOCKET = Config(
    connect_timeout=1,
    read_timeout=2,
    retries={"total_max_attempts": 1},
    user_agent_extra="docstokg",
)
THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
WRONG_SETTING = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "InvalidSignatureException",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "UnrecognizedClientException",
    }
)


class AwsService:
    """One service of one region."""

    def __init__(
        self,
        name: str,
        region: str | None = None,
        endpoint: str | None = None,
        read_timeout_s: float | None = None,
    ) -> None:
        self.name = name
        # Set only to disable it: true would override the environment.
        self._config = SOCKET.merge(Config(inject_host_prefix=False)) if endpoint else SOCKET
        if read_timeout_s is not None:
            self._config = self._config.merge(Config(read_timeout=read_timeout_s))
        self._region = region
        self._endpoint = endpoint

    def warm(self) -> None:
        """Create the client."""
        try:
            _ = self._client
        except BotoCoreError as exc:
            raise _error_of(self.name, exc) from exc

    def call(self, request: Callable[[Any], Answer], deadline: Deadline) -> Answer:
        """Return `ask(client)`.

        Raise `Timeout`, `QuotaExceeded`, `Misconfigured` (rights, credentials, no such resource),
        `WrongAnswer` (unreadable), or `Unavailable` for all other failures.
        """
        return within(lambda: self._translated(request), deadline, self.name)

    def request(self, operation: str, deadline: Deadline, **parameters: Any) -> Any:
        """Run an operation by its Python name and return its response; raise errors as `call`."""
        return self.call(lambda client: getattr(client, operation)(**parameters), deadline)

    def _translated(self, request: Callable[[Any], Answer]) -> Answer:
        try:
            return request(self._client)
        except (BotoCoreError, ClientError) as exc:
            raise _error_of(self.name, exc) from exc
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as exc:
            raise WrongAnswer(f"{self.name} sent an unreadable answer") from exc

    @cached_property
    def _client(self) -> Any:
        return boto3.session.Session().client(
            self.name,
            region_name=self._region,
            endpoint_url=self._endpoint,
            config=self._config,
        )


def _error_of(service: str, exc: BotoCoreError | ClientError) -> DocsToKGError:
    if isinstance(exc, ClientError):
        code = str(exc.response.get("Error", {}).get("Code", ""))
        if code in THROTTLED:
            return QuotaExceeded(f"{service} refused: {code}")
        if code in WRONG_SETTING:
            return Misconfigured(f"{service} refused: {code}")
        return Unavailable(f"{service} failed: {code}")
    if isinstance(exc, ConnectTimeoutError | ReadTimeoutError):
        return Timeout(f"{service} did not answer")
    if isinstance(exc, NoCredentialsError):
        return Misconfigured(f"{service}: no credentials")
    return Unavailable(f"{service} cannot be reached: {type(exc).__name__}")


class Warmed:
    """An adapter of one service."""

    _service: AwsService

    def warm(self) -> None:
        """Create the client."""
        self._service.warm()


class DynamoDbTable(Warmed):
    """A table of a deployment."""

    def __init__(self, table: str) -> None:
        self._table, self._service = table, AwsService("dynamodb")

    def _request(self, operation: str, deadline: Deadline, **parameters: Any) -> Any:
        return self._service.request(operation, deadline, TableName=self._table, **parameters)
