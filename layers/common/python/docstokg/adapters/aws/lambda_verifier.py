"""Lambda verifier."""

import json
from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from docstokg.adapters.aws.clients import AwsService, Warmed
from docstokg.adapters.aws.lambda_invoke import invoked
from docstokg.adapters.aws.stepfunctions import region_of
from docstokg.domain.deadline import Deadline
from docstokg.domain.foreign_json import parsed
from docstokg.errors import WrongAnswer
from docstokg.ports import Opinion, Pair

_ANSWER = TypeAdapter(dict[str, list[Opinion | None]])


class LambdaVerifier(Warmed):
    """A `Verifier`; `arn`: of the function's alias, `longest_s`: maximum seconds per call."""

    def __init__(
        self,
        name: str,
        threshold: float,
        arn: str,
        longest_s: float,
        service: AwsService | None = None,
    ) -> None:
        self.name, self.threshold, self._arn = name, threshold, arn
        self._service = service or AwsService("lambda", region_of(arn), read_timeout_s=longest_s)

    def verify(self, pairs: Sequence[Pair], deadline: Deadline) -> Sequence[Opinion | None]:
        """Return the function's opinions, None if unverified.

        Raise errors as `invoked`, and `WrongAnswer`.
        """
        event = {"mode": "verify", "pairs": pairs, "timeout_s": deadline.remaining()}
        payload = invoked(self._service, self._arn, json.dumps(event).encode(), deadline)
        try:
            return _ANSWER.validate_python(parsed(payload, "the function"))["opinions"]
        except (ValidationError, KeyError) as exc:
            raise WrongAnswer("the function returned no opinions") from exc
