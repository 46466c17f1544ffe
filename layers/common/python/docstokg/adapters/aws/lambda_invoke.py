"""A route's own function in AWS, called by another function instead of API Gateway."""

from docstokg.adapters.aws.clients import AwsService
from docstokg.adapters.aws.stepfunctions import region_of, reply_of
from docstokg.contracts.envelope import Envelope, Reply
from docstokg.errors import Timeout, Unavailable


class LambdaRouteFunction:
    """The Workflow port on a synchronous invocation."""

    def __init__(self, arn: str, timeout_s: float, service: AwsService | None = None) -> None:
        """`arn`: of the function's alias or version."""
        self._arn, self._timeout_s = arn, timeout_s
        self._service = service or AwsService("lambda", region_of(arn), read_timeout_s=timeout_s)

    def run(self, envelope: Envelope) -> Reply:
        """Invoke once and give the reply; `Timeout` and `Unavailable` when there is none."""
        event = envelope.model_dump_json().encode()
        answer, payload = self._service.call(
            lambda client: _read(client.invoke(FunctionName=self._arn, Payload=event)),
            self._timeout_s,
        )
        if answer.get("FunctionError"):
            # The payload is a stack trace then: it says only whether time ran out.
            if b"Task timed out" in payload:
                raise Timeout("the function ran out of time")
            raise Unavailable("the function failed")
        return reply_of(payload, "function")


def _read(answer: dict[str, object]) -> tuple[dict[str, object], bytes]:
    """Read the body inside the deadline's thread."""
    stream = answer["Payload"]
    return answer, stream.read()  # type: ignore[attr-defined]
