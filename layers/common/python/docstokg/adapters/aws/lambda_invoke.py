"""Lambda calls."""

from docstokg.adapters.aws.clients import AwsService
from docstokg.adapters.aws.stepfunctions import region_of, reply_of
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.domain.deadline import Deadline
from docstokg.errors import Timeout, Unavailable


class LambdaRouteFunction:
    """A `Workflow` by synchronous invocation."""

    def __init__(self, arn: str, longest_s: float) -> None:
        self._arn, self._longest_s = arn, longest_s
        self._service = AwsService("lambda", region_of(arn), read_timeout_s=longest_s)

    def run(self, envelope: Envelope) -> Reply:
        """Invoke the function once and return the reply.

        Raise errors as `invoked`, or `WrongAnswer`.
        """
        event = envelope.model_dump_json().encode()
        return reply_of(
            invoked(self._service, self._arn, event, Deadline.after(self._longest_s)), "function"
        )


def invoked(service: AwsService, arn: str, event: bytes, deadline: Deadline) -> bytes:
    """Invoke a function once and return its payload.

    Raise `Timeout`, `Unavailable`, or errors as `AwsService.call`.
    """
    answer, payload = service.call(
        lambda client: _read(client.invoke(FunctionName=arn, Payload=event)), deadline
    )
    if answer.get("FunctionError"):
        # The payload is then a stack trace; only a time-out in it is relevant.
        if b"Task timed out" in payload:
            raise Timeout("the function ran out of time")
        raise Unavailable("the function failed")
    return payload


def _read(answer: dict[str, object]) -> tuple[dict[str, object], bytes]:
    stream = answer["Payload"]
    return answer, stream.read()  # type: ignore[attr-defined]
